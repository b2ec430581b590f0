package runners_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/runners"
)

// shelf is a source whose content and error are set by a test.
type shelf struct {
	mu     sync.Mutex
	counts map[string]int
	err    error
}

func (s *shelf) set(counts map[string]int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts, s.err = counts, err
}

func (s *shelf) source(kind string) runners.InventorySource {
	return runners.InventorySource{Kind: kind, Count: func(context.Context, client.Reader) (map[string]int, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.counts, s.err
	}}
}

func expectGauge(t *testing.T, registry *prometheus.Registry, reason string, series ...string) {
	t.Helper()
	synctest.Wait()
	want := ""
	if len(series) > 0 {
		want = "# HELP leasehold_objects Number of objects, by kind and by the status of their Ready condition.\n" +
			"# TYPE leasehold_objects gauge\n" + strings.Join(series, "\n") + "\n"
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "leasehold_objects"); err != nil {
		t.Errorf("%s: %v", reason, err)
	}
}

func TestInventory_counts_objects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(func(name, args string) {
			logged = append(logged, name+": "+args)
		}, funcr.Options{})))
		registry := prometheus.NewRegistry()
		var tenants, buckets shelf
		tenants.set(map[string]int{"True": 2, "False": 1}, nil)
		buckets.set(map[string]int{"Unknown": 3}, nil)
		inventory, err := runners.NewInventory(registry, nil, time.Minute, clock.RealClock{},
			tenants.source("Tenant"), buckets.source("StorageBucket"))
		if err != nil {
			t.Fatal(err)
		}
		expectGauge(t, registry, "before Start there is no value")

		done := make(chan error, 1)
		go func() { done <- inventory.Start(ctx) }()
		expectGauge(t, registry, "the first count is made at once",
			`leasehold_objects{kind="StorageBucket",ready="Unknown"} 3`,
			`leasehold_objects{kind="Tenant",ready="False"} 1`,
			`leasehold_objects{kind="Tenant",ready="True"} 2`)

		tenants.set(map[string]int{"True": 3}, nil)
		expectGauge(t, registry, "nothing is counted between two ticks",
			`leasehold_objects{kind="StorageBucket",ready="Unknown"} 3`,
			`leasehold_objects{kind="Tenant",ready="False"} 1`,
			`leasehold_objects{kind="Tenant",ready="True"} 2`)

		<-time.After(time.Minute)
		expectGauge(t, registry, "a removed series does not keep its old value",
			`leasehold_objects{kind="StorageBucket",ready="Unknown"} 3`,
			`leasehold_objects{kind="Tenant",ready="True"} 3`)

		buckets.set(map[string]int{"Unknown": 3}, errors.New("on purpose"))
		<-time.After(time.Minute)
		expectGauge(t, registry, "a kind that cannot be counted shows nothing; the others go on",
			`leasehold_objects{kind="Tenant",ready="True"} 3`)

		buckets.set(map[string]int{"Unknown": 4}, nil)
		<-time.After(time.Minute)
		expectGauge(t, registry, "and is exposed again when it can be read",
			`leasehold_objects{kind="StorageBucket",ready="Unknown"} 4`,
			`leasehold_objects{kind="Tenant",ready="True"} 3`)

		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start returned %v, want nil", err)
		}
		want := []string{`inventory: "msg"="counting objects" "error"="on purpose" "kind"="StorageBucket"`}
		if diff := cmp.Diff(want, logged); diff != "" {
			t.Errorf("the log (-want +got):\n%s", diff)
		}
	})
}

func TestInventory_keeps_counts_while_stopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		registry := prometheus.NewRegistry()
		first := true
		source := runners.InventorySource{Kind: "Tenant",
			Count: func(ctx context.Context, _ client.Reader) (map[string]int, error) {
				if first {
					first = false
					return map[string]int{"True": 1}, nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}}
		inventory, err := runners.NewInventory(registry, nil, time.Minute, clock.RealClock{}, source)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- inventory.Start(ctx) }()
		<-time.After(time.Minute)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start returned %v, want nil", err)
		}
		expectGauge(t, registry, "a count cut short by the stop changes nothing",
			`leasehold_objects{kind="Tenant",ready="True"} 1`)
	})
}

func TestNewInventory_rejects_second_registration(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := runners.NewInventory(registry, nil, time.Minute, clock.RealClock{}); err != nil {
		t.Fatal(err)
	}
	_, err := runners.NewInventory(registry, nil, time.Minute, clock.RealClock{})
	if err == nil || !strings.Contains(err.Error(), "registering the inventory metrics") {
		t.Errorf("the second NewInventory returned %v, want an error about registering", err)
	}
}

func TestInventoryRunsOnEveryReplica(t *testing.T) {
	inventory, err := runners.NewInventory(prometheus.NewRegistry(), nil, time.Minute, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	if inventory.NeedLeaderElection() {
		t.Error("NeedLeaderElection() = true, want false")
	}
}

func TestCountByReady(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	tenant := func(name string, conditions ...metav1.Condition) client.Object {
		return &v1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     v1beta1.TenantStatus{Conditions: conditions},
		}
	}
	ready := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: v1beta1.ConditionReady, Status: status}
	}
	source := runners.CountByReady("Tenant",
		func() client.ObjectList { return &v1beta1.TenantList{} },
		func(t *v1beta1.Tenant) []metav1.Condition { return t.Status.Conditions })
	cases := map[string]struct {
		objects []client.Object
		want    map[string]int
	}{
		"None": {nil, map[string]int{"True": 0, "False": 0, "Unknown": 0}},
		"Some": {[]client.Object{
			tenant("a", ready(metav1.ConditionTrue)),
			tenant("b", metav1.Condition{Type: v1beta1.ConditionStalled, Status: metav1.ConditionTrue},
				ready(metav1.ConditionFalse)),
			tenant("c", ready(metav1.ConditionTrue)),
			tenant("d", ready(metav1.ConditionUnknown)),
			tenant("e"),
		}, map[string]int{"True": 2, "False": 1, "Unknown": 2}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.objects...).Build()
			got, err := source.Count(t.Context(), reader)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
	_, err := source.Count(t.Context(), fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build())
	if err == nil || !strings.Contains(err.Error(), "listing Tenant objects") {
		t.Errorf("Count with a reader that fails: %v, want an error about listing", err)
	}
}
