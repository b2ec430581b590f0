package runners

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"leasehold.dev/api/v1beta1"
)

var (
	_ manager.Runnable               = (*Inventory)(nil)
	_ manager.LeaderElectionRunnable = (*Inventory)(nil)
	_ prometheus.Collector           = (*Inventory)(nil)
)

// InventorySource counts the objects of one kind by the status of their Ready
// condition: "True", "False" or "Unknown".
type InventorySource struct {
	Kind  string
	Count func(ctx context.Context, reader client.Reader) (map[string]int, error)
}

// CountByReady is the source for a kind with conditions. An object without a Ready
// condition counts as Unknown. All three series are always there, so that an
// alert on one of them can tell zero from nothing.
func CountByReady[T client.Object](
	kind string, newList func() client.ObjectList, conditionsOf func(T) []metav1.Condition,
) InventorySource {
	return InventorySource{Kind: kind, Count: func(ctx context.Context, reader client.Reader) (map[string]int, error) {
		list := newList()
		if err := reader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing %s objects: %w", kind, err)
		}
		counts := map[string]int{
			string(metav1.ConditionTrue): 0, string(metav1.ConditionFalse): 0, string(metav1.ConditionUnknown): 0,
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			ready := string(metav1.ConditionUnknown)
			if found := meta.FindStatusCondition(conditionsOf(item.(T)), v1beta1.ConditionReady); found != nil {
				ready = string(found.Status)
			}
			counts[ready]++
			return nil
		})
		return counts, err
	}}
}

// Inventory publishes how many objects there are as the gauge
// leasehold_objects{kind,ready}. It reads the cache only, and runs on every
// replica, so that the figures outlive a change of leader.
type Inventory struct {
	reader   client.Reader
	interval time.Duration
	clock    clock.WithTicker
	sources  []InventorySource
	gauge    *prometheus.Desc

	mu     sync.Mutex
	counts map[string]map[string]int // by kind and ready; replaced, never changed
}

// NewInventory registers the gauge with registerer and returns the runnable that
// fills it at once and then each interval. It is an error to register it twice.
func NewInventory(
	registerer prometheus.Registerer, reader client.Reader,
	interval time.Duration, c clock.WithTicker, sources ...InventorySource,
) (*Inventory, error) {
	inventory := &Inventory{
		reader:   reader,
		interval: interval,
		clock:    c,
		sources:  sources,
		gauge: prometheus.NewDesc("leasehold_objects",
			"Number of objects, by kind and by the status of their Ready condition.",
			[]string{"kind", "ready"}, nil),
	}
	if err := registerer.Register(inventory); err != nil {
		return nil, fmt.Errorf("registering the inventory metrics: %w", err)
	}
	return inventory, nil
}

// NeedLeaderElection reports false: every replica counts.
func (i *Inventory) NeedLeaderElection() bool { return false }

// Start counts until ctx is done. A kind that cannot be counted is logged and
// has no series until it can be: no figure is better than an old one.
func (i *Inventory) Start(ctx context.Context) error {
	ticker := i.clock.NewTicker(i.interval)
	defer ticker.Stop()
	for {
		i.count(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

func (i *Inventory) count(ctx context.Context) {
	counts := make(map[string]map[string]int, len(i.sources))
	for _, source := range i.sources {
		byReady, err := source.Count(ctx, i.reader)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.FromContext(ctx).WithName("inventory").Error(err, "counting objects", "kind", source.Kind)
			continue
		}
		counts[source.Kind] = byReady
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.counts = counts
}

// Describe implements prometheus.Collector.
func (i *Inventory) Describe(descs chan<- *prometheus.Desc) { descs <- i.gauge }

// Collect implements prometheus.Collector. A scrape sees one count or the next,
// never a mixture.
func (i *Inventory) Collect(metrics chan<- prometheus.Metric) {
	i.mu.Lock()
	counts := i.counts
	i.mu.Unlock()
	for kind, byReady := range counts {
		for ready, n := range byReady {
			metrics <- prometheus.MustNewConstMetric(i.gauge, prometheus.GaugeValue, float64(n), kind, ready)
		}
	}
}
