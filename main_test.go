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
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
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

// The inventory counts all objects of each kind twice a minute, on every replica. It asks
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
	if diff := cmp.Diff([]string{"*v1beta1.TenantList", "*v1beta1.MarkdownViewList", "*v1beta1.StorageBucketList"}, counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// serving is a manager that records what is served.
type serving struct {
	ctrl.Manager
	served []string
	caches healthz.Checker
}

func (m *serving) AddReadyzCheck(name string, check healthz.Checker) error {
	m.served = append(m.served, "/readyz/"+name)
	if name == "caches" {
		m.caches = check
	}
	return m.Manager.AddReadyzCheck(name, check)
}

func (m *serving) AddHealthzCheck(name string, check healthz.Checker) error {
	m.served = append(m.served, "/healthz/"+name)
	return m.Manager.AddHealthzCheck(name, check)
}

func (m *serving) AddMetricsServerExtraHandler(path string, page http.Handler) error {
	m.served = append(m.served, path)
	return m.Manager.AddMetricsServerExtraHandler(path, page)
}

// GetWebhookServer makes the manager start the server, so nobody may call it in vain.
func (m *serving) GetWebhookServer() webhook.Server {
	m.served = append(m.served, "webhooks")
	return m.Manager.GetWebhookServer()
}

// What a replica serves beside its metrics: no debug page where anybody could read it, and
// without webhooks neither their server nor the check that waits for it. It is ready when it
// knows all kinds that its controllers watch.
func TestWhatIsServed(t *testing.T) {
	always := []string{"/healthz/ping", "/healthz/workers", "/readyz/caches", "/readyz/tenant-admin-role"}
	for name, tc := range map[string]struct {
		args []string
		more []string
	}{
		"as it ships":      {nil, []string{"/debug/leasehold", "/readyz/webhook", "webhooks"}},
		"without webhooks": {[]string{"--enable-webhooks=false"}, []string{"/debug/leasehold"}},
		"open metrics":     {[]string{"--metrics-secure=false"}, []string{"/readyz/webhook", "webhooks"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(append(shippedArguments(t, "default"), tc.args...), inPod)
			if err != nil {
				t.Fatal(err)
			}
			w, mgr, _ := newWatches(t)
			m := &serving{Manager: mgr}
			progress := health.NewProgress(time.Minute, clock.RealClock{})
			if err := errors.Join(addWebhooks(m, o, nil), addChecks(m, o, progress)); err != nil {
				t.Fatal(err)
			}
			slices.Sort(m.served)
			want := slices.Sorted(slices.Values(slices.Concat(always, tc.more)))
			if diff := cmp.Diff(want, slices.Compact(m.served)); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
			if err := m.caches(httptest.NewRequest(http.MethodGet, "/readyz", nil)); err != nil {
				t.Error(err)
			}
			kinds := []string{
				"*v1.ClusterRole", "*v1.ClusterRoleBinding", "*v1.ConfigMap", "*v1.Deployment", "*v1.Namespace", "*v1.RoleBinding", "*v1.Service",
				"*v1beta1.MarkdownView", "*v1beta1.StorageBucket", "*v1beta1.Tenant",
			}
			if diff := cmp.Diff(kinds, slices.Sorted(maps.Keys(w.informers))); diff != "" {
				t.Errorf("readiness waits for (-want +got):\n%s", diff)
			}
		})
	}
}

// Garbage is collected more eagerly before there is an alert, and not at half of the limit.
func TestMemoryIsFreedBeforeTheAlert(t *testing.T) {
	rules, err := os.ReadFile("config/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var alert float64
	_, after, _ := strings.Cut(string(rules), "process_resident_memory_bytes{")
	_, after, _ = strings.Cut(after, "> ")
	if _, err := fmt.Sscanf(after, "%g *", &alert); err != nil {
		t.Fatalf("reading the threshold of LeaseholdMemory: %v", err)
	}
	if memoryShare >= alert || memoryShare <= 0.5 {
		t.Errorf("garbage is collected at %g of the memory, and the alert is at %g", memoryShare, alert)
	}
}
