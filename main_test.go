package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/runners/health"
)

// serving is a manager that records its servers by their names.
type serving struct {
	ctrl.Manager
	servers map[string]*manager.Server
	hooks   bool // the webhooks' server was added
}

func (m *serving) Add(added manager.Runnable) error {
	if s, ok := added.(*manager.Server); ok {
		m.servers[s.Name] = s
	}
	return m.Manager.Add(added)
}

// GetWebhookServer adds the server to the manager's runnables.
func (m *serving) GetWebhookServer() webhook.Server {
	m.hooks = true
	return m.Manager.GetWebhookServer()
}

// read returns the response of a server to a request without credentials.
func (m *serving) read(server, path string) string {
	answer := httptest.NewRecorder()
	m.servers[server].Server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return fmt.Sprintf("%d %s", answer.Code, answer.Body)
}

// TestChecksAndPages tests a replica that has not started and has a stuck worker. Without
// authorization there is no debug page. Without webhooks there is no check of their server.
func TestChecksAndPages(t *testing.T) {
	for name, tc := range map[string]struct {
		args, ready      []string
		servers          []string
		metrics, debug   string
		webhooksAreAdded bool
	}{
		"as it ships": {nil, []string{"caches", "tenant-admin-role", "webhook"}, []string{"health probe", "metrics"},
			"401 Unauthorized\n", "401 Unauthorized\n", true},
		"without webhooks": {[]string{"--enable-webhooks=false"}, []string{"caches", "tenant-admin-role"},
			[]string{"health probe", "metrics"}, "401 Unauthorized\n", "401 Unauthorized\n", false},
		"open metrics": {[]string{"--metrics-secure=false"}, []string{"caches", "tenant-admin-role", "webhook"},
			[]string{"health probe", "metrics"}, "200", "404 404 page not found\n", true},
		"without servers": {[]string{"--health-probe-bind-address=0", "--metrics-bind-address=0"},
			[]string{"caches", "tenant-admin-role", "webhook"}, nil, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(slices.Concat(shippedArguments(t, "default"),
				[]string{"--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0"}, tc.args), inPod)
			if err != nil {
				t.Fatal(err)
			}
			now := testingclock.NewFakePassiveClock(time.Unix(0, 0))
			progress := health.NewProgress(time.Minute, now)
			queue := progress.NewQueue("stuck", nil)
			t.Cleanup(queue.ShutDown)
			for _, name := range []string{"a", "b"} {
				queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			}
			queue.Get()
			now.SetTime(now.Now().Add(2 * time.Minute))

			w, mgr, _ := newWatches(t)
			m := &serving{Manager: mgr, servers: map[string]*manager.Server{}}
			if err := errors.Join(addWebhooks(m, o, nil), addServers(t.Context(), m, o, progress)); err != nil {
				t.Fatal(err)
			}
			for _, s := range m.servers {
				t.Cleanup(func() { _ = s.Listener.Close() })
			}
			if diff := cmp.Diff(tc.servers, slices.Sorted(maps.Keys(m.servers))); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
			if m.hooks != tc.webhooksAreAdded {
				t.Errorf("the webhooks' server is added: %t, want %t", m.hooks, tc.webhooksAreAdded)
			}
			if tc.servers != nil {
				if got := m.read("metrics", "/metrics"); !strings.HasPrefix(got, tc.metrics) {
					t.Errorf("/metrics without credentials: %s, want %s", got, tc.metrics)
				}
				if got := m.read("metrics", debugPath); got != tc.debug {
					t.Errorf("%s without credentials: %s, want %s", debugPath, got, tc.debug)
				}
				for path, want := range map[string]string{"/healthz/ping": "200 ok", "/healthz/workers": "500 ", "/healthz": "500 ",
					"/readyz/caches": "200 ok", "/readyz/tenant-admin-role": "500 ", "/readyz": "500 ", "/readyz/ping": "404 "} {
					if got := m.read("health probe", path); !strings.HasPrefix(got, want) {
						t.Errorf("%s: %s, want %s", path, got, want)
					}
				}
			}
			live, ready, err := checks(m, o, progress)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.ready, slices.Sorted(maps.Keys(ready))); diff != "" {
				t.Errorf("checks of readiness (-want +got):\n%s", diff)
			}
			if err := ready["caches"](httptest.NewRequest(http.MethodGet, "/", http.NoBody)); err != nil {
				t.Errorf("caches: %v", err)
			}
			for name, want := range map[string]string{
				"tenant-admin-role": `whether the operator may bind clusterroles.rbac.authorization.k8s.io "admin" has not been reviewed yet`,
				"webhook":           "webhook server has not been started yet",
			} {
				if check := ready[name]; check != nil {
					if err := check(nil); err == nil || err.Error() != want {
						t.Errorf("%s: %v, want %s", name, err, want)
					}
				}
			}
			const stuck = `controller stuck: a worker has been reconciling "/a" for 2m0s (limit 1m0s) with 1 more queued`
			if err := live["workers"](nil); err == nil || err.Error() != stuck {
				t.Errorf("workers: %v, want %s", err, stuck)
			}
			kinds := []string{
				"*v1.ClusterRole", "*v1.ClusterRoleBinding", "*v1.ConfigMap", "*v1.Deployment", "*v1.Namespace", "*v1.RoleBinding",
				"*v1.Service",
				"*v1beta1.MarkdownView", "*v1beta1.StorageBucket", "*v1beta1.Tenant",
			}
			if diff := cmp.Diff(kinds, slices.Sorted(maps.Keys(w.informers))); diff != "" {
				t.Errorf("readiness waits for (-want +got):\n%s", diff)
			}
		})
	}
}

// The garbage collector frees more memory before the alert LeaseholdMemory fires.
func TestMemoryShareIsBelowTheAlert(t *testing.T) {
	rules, err := os.ReadFile("config/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var alert float64
	_, after, _ := strings.Cut(string(rules), "process_resident_memory_bytes{")
	_, after, _ = strings.Cut(after, "> ")
	if _, err := fmt.Sscanf(after, "%g", &alert); err != nil {
		t.Fatalf("reading the threshold of LeaseholdMemory: %v", err)
	}
	if memoryShare >= alert || memoryShare <= 0.5 {
		t.Errorf("memoryShare is %g, want more than 0.5 and less than the alert's %g", memoryShare, alert)
	}
}

func TestStopIsDelayed(t *testing.T) {
	for flag, want := range map[string]time.Duration{"--shutdown-delay-duration=2s": 2 * time.Second,
		"--shutdown-delay-duration=0": 0} {
		o, err := parseOptions([]string{flag}, inPod)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			parent, stop := context.WithCancel(t.Context())
			stopped := o.leaving().Context(parent)
			began := time.Now()
			stop()
			<-stopped.Done()
			if got := time.Since(began); got != want {
				t.Errorf("%s: it stops after %s", flag, got)
			}
		})
	}
}

// /healthz fails once a reconcile has run for longer than --stuck-after while others wait.
func TestStuckWorkerIsUnhealthy(t *testing.T) {
	o, err := parseOptions([]string{"--stuck-after=7m"}, inPod)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		progress := o.progress()
		queue := progress.NewQueue("stuck", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		for _, name := range []string{"held", "waiting"} {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
		queue.Get()
		<-time.After(7 * time.Minute)
		if err := progress.Check(nil); err != nil {
			t.Errorf("after 7 minutes: %v", err)
		}
		<-time.After(time.Nanosecond)
		if err := progress.Check(nil); err == nil {
			t.Error("after more than 7 minutes it is healthy")
		}
	})
}
