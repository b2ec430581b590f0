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
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/runners"
	"leasehold.dev/runners/health"
)

var errEnough = errors.New("the test needs no more runnables")

// firstOnly is a manager that takes the inventory and nothing after it.
type firstOnly struct {
	ctrl.Manager
	cached client.Client
	live   client.Reader
	took   *runners.Inventory
}

func (m *firstOnly) GetClient() client.Client    { return m.cached }
func (m *firstOnly) GetAPIReader() client.Reader { return m.live }
func (m *firstOnly) Add(added manager.Runnable) error {
	m.took, _ = added.(*runners.Inventory)
	return errEnough
}

// listing is a client that calls f with the kind of each list.
func listing(f func(kind string)) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(newScheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			f(fmt.Sprintf("%T", list))
			return c.List(ctx, list, opts...)
		},
	}).Build()
}

// The inventory counts all objects of each kind twice a minute, on every replica. It reads
// the cache for them, and never the API server.
func TestTheInventoryCountsInTheCache(t *testing.T) {
	o, err := parseOptions(shippedArguments(t, "default"), inPod)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var counted []string
	m := &firstOnly{
		cached: listing(func(kind string) {
			if counted = append(counted, kind); len(counted) == 3 {
				stop()
			}
		}),
		live: listing(func(kind string) { t.Errorf("%s was listed by the API server", kind); stop() }),
	}
	progress := health.NewProgress(time.Minute, clock.RealClock{})
	if err := addRunnables(ctx, m, o, nil, progress); !errors.Is(err, errEnough) || m.took == nil {
		t.Fatalf("%v, and the first runnable is no inventory", err)
	}
	t.Cleanup(func() { metrics.Registry.Unregister(m.took) })
	if err := m.took.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"*v1beta1.TenantList", "*v1beta1.MarkdownViewList", "*v1beta1.StorageBucketList"},
		counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// serving is a manager that records its checks and pages by path, and what they answer.
type serving struct {
	ctrl.Manager
	answers map[string]func() string
}

func (m *serving) add(path string, check healthz.Checker) {
	m.answers[path] = func() string {
		if err := check(httptest.NewRequest(http.MethodGet, path, http.NoBody)); err != nil {
			return err.Error()
		}
		return "ok"
	}
}

func (m *serving) AddReadyzCheck(name string, check healthz.Checker) error {
	m.add("/readyz/"+name, check)
	return m.Manager.AddReadyzCheck(name, check)
}

func (m *serving) AddHealthzCheck(name string, check healthz.Checker) error {
	m.add("/healthz/"+name, check)
	return m.Manager.AddHealthzCheck(name, check)
}

func (m *serving) AddMetricsServerExtraHandler(path string, page http.Handler) error {
	m.answers[path] = func() string {
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return answer.Body.String()
	}
	return m.Manager.AddMetricsServerExtraHandler(path, page)
}

// GetWebhookServer adds the server to the manager's runnables.
func (m *serving) GetWebhookServer() webhook.Server {
	m.answers["the webhooks"] = func() string { return "" }
	return m.Manager.GetWebhookServer()
}

// The checks and pages of a replica that has not started and has a stuck worker. Without
// authorization there is no debug page. Without webhooks there is no check of their server.
func TestChecksAndPages(t *testing.T) {
	all := map[string]string{
		"/healthz/ping":             "ok",
		"/healthz/workers":          `controller stuck: a worker has been reconciling "/a" for 2m0s (limit 1m0s) with 1 more queued`,
		"/readyz/caches":            "ok",
		"/readyz/tenant-admin-role": `whether the operator may bind clusterroles.rbac.authorization.k8s.io "admin" has not been reviewed yet`,
		"/readyz/webhook":           "webhook server has not been started yet",
		"/debug/leasehold": `{"replica":"manager-0","leader":false,"controllers":[{"name":"stuck","working":true,"queued":1,"running":1,` +
			`"oldestSeconds":120,"started":1}]}` + "\n",
		"the webhooks": "",
	}
	for name, tc := range map[string]struct{ args, without []string }{
		"as it ships":      {nil, nil},
		"without webhooks": {[]string{"--enable-webhooks=false"}, []string{"/readyz/webhook", "the webhooks"}},
		"open metrics":     {[]string{"--metrics-secure=false"}, []string{"/debug/leasehold"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(append(shippedArguments(t, "default"), tc.args...), inPod)
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
			m := &serving{mgr, map[string]func() string{}}
			if err := errors.Join(addWebhooks(m, o, nil), addChecks(m, o, progress)); err != nil {
				t.Fatal(err)
			}
			want, got := maps.Clone(all), map[string]string{}
			for _, path := range tc.without {
				delete(want, path)
			}
			for path, answer := range m.answers {
				got[path] = answer()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("checks and pages (-want +got):\n%s", diff)
			}
			// The caches of all kinds that the controllers watch.
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

// A replica that receives SIGTERM continues for --shutdown-delay-duration.
func TestStopIsDelayed(t *testing.T) {
	for flag, want := range map[string]time.Duration{"--shutdown-delay-duration=2s": 2 * time.Second,
		"--shutdown-delay-duration=0": 0} {
		o, err := parseOptions([]string{flag}, inPod)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			asked, ask := context.WithCancel(t.Context())
			stopped := o.leaving().Context(asked)
			began := time.Now()
			ask()
			<-stopped.Done()
			if got := time.Since(began); got != want {
				t.Errorf("%s: it stops after %s", flag, got)
			}
		})
	}
}

// While others wait, /healthz fails once a reconcile has run for longer than --stuck-after.
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
