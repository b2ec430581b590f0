package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/performance/environment"
)

// watcher sees which Tenants are Ready, and since when. It watches all through a
// measurement, so that the API server has the same to do in all parts of it.
type watcher struct {
	bench environment.Parameters
	stop  context.CancelFunc
	ended chan struct{}

	mu    sync.Mutex
	ready map[string]time.Time
}

// look begins to watch; the watcher has to be closed.
func (f *testbed) look(ctx context.Context) (*watcher, error) {
	ctx, stop := context.WithCancel(ctx)
	o := &watcher{bench: f.bench, stop: stop, ended: make(chan struct{}), ready: map[string]time.Time{}}
	c, err := cache.New(f.Plane.Config(), cache.Options{Scheme: environment.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		stop()
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	go func() {
		defer close(o.ended)
		// Its error is the end of ctx, or shows in that nothing is seen.
		_ = c.Start(ctx)
	}()
	informer, err := c.GetInformer(ctx, &v1beta1.Tenant{})
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    o.see,
			UpdateFunc: func(_, now any) { o.see(now) },
		})
	}
	if err != nil {
		o.close()
		return nil, fmt.Errorf("watching Tenants: %w", err)
	}
	return o, nil
}

func (o *watcher) close() {
	o.stop()
	<-o.ended
}

func (o *watcher) see(object any) {
	t, ok := object.(client.Object).(*v1beta1.Tenant)
	if !ok || !meta.IsStatusConditionTrue(t.Status.Conditions, v1beta1.ConditionReady) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.ready[t.Name]; !known {
		o.ready[t.Name] = o.bench.Clock.Now()
	}
}

// seen is when each member of a fleet that is Ready became so, in that order.
func (o *watcher) seen(fleet string) []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	var times []time.Time
	for name, at := range o.ready {
		if strings.HasPrefix(name, fleet+"-") {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// await returns when the whole fleet is Ready. It gives up when none has become Ready
// for a minute.
func (o *watcher) await(ctx context.Context, fleet string, n int) ([]time.Time, error) {
	stalled := newStall(o.bench.Clock)
	for {
		times := o.seen(fleet)
		if len(times) == n {
			return times, nil
		}
		if stalled.reached(len(times)) {
			return times, fmt.Errorf("only %d of %d Tenants of %s are Ready, and none became so for %s", len(times), n, fleet, patience)
		}
		select {
		case <-ctx.Done():
			return times, errors.Join(fmt.Errorf("waiting for %d Tenants, of which %d are Ready", n, len(times)), ctx.Err())
		case <-o.bench.Clock.After(glance):
		}
	}
}

// stall notices that a count does not grow any more.
type stall struct {
	clock clock.PassiveClock
	moved time.Time
	last  int
}

func newStall(c clock.PassiveClock) *stall { return &stall{clock: c, moved: c.Now()} }

// reached reports that the count has been the same for a minute.
func (s *stall) reached(count int) bool {
	if count != s.last {
		s.last, s.moved = count, s.clock.Now()
	}
	return s.clock.Since(s.moved) > patience
}
