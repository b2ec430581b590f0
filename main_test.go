package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

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
