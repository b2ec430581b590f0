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

// InventorySource counts the objects of one kind by the status of their Ready condition: "True",
// "False" or "Unknown".
type InventorySource struct {
	Kind  string
	Count func(ctx context.Context, reader client.Reader) (map[string]int, error)
}

// CountByReady returns the source for a kind with conditions. An object without a Ready condition
// counts as Unknown. All three series always exist, so that an alert can distinguish zero from
// missing data.
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

// Inventory exposes the numbers of objects as the gauge leasehold_objects{kind,ready}. It reads
// only the cache, and runs on every replica, so the series continue after a change of the leader.
type Inventory struct {
	reader   client.Reader
	interval time.Duration
	clock    clock.WithTicker
	sources  []InventorySource
	gauge    *prometheus.Desc

	mu     sync.Mutex
	counts map[string]map[string]int // by kind and ready; replaced and never modified
}

// NewInventory registers the gauge with registerer. It returns the runnable that counts at its
// start and then once each interval. A second registration is an error.
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

// Start counts until ctx is done. If a kind cannot be counted, Start logs the error and removes its
// series until a count succeeds: no number is better than an old one.
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

// Collect implements prometheus.Collector. A scrape returns the numbers of exactly one count.
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
