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
	"leasehold.dev/test/performance/stage"
)

// onlooker sees which Tenants are Ready, and since when. It watches all through a
// measurement, so that the API server has the same to do in all parts of it.
type onlooker struct {
	bench stage.Bench
	stop  context.CancelFunc
	ended chan struct{}

	mu    sync.Mutex
	ready map[string]time.Time
}

// look begins to watch; the onlooker has to be closed.
func (f *field) look(ctx context.Context) (*onlooker, error) {
	ctx, stop := context.WithCancel(ctx)
	o := &onlooker{bench: f.bench, stop: stop, ended: make(chan struct{}), ready: map[string]time.Time{}}
	c, err := cache.New(f.Plane.Config(), cache.Options{Scheme: stage.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
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

func (o *onlooker) close() {
	o.stop()
	<-o.ended
}

func (o *onlooker) see(object any) {
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
func (o *onlooker) seen(fleet string) []time.Time {
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
func (o *onlooker) await(ctx context.Context, fleet string, n int) ([]time.Time, error) {
	news := newPacer(o.bench.Clock)
	for {
		times := o.seen(fleet)
		if len(times) == n {
			return times, nil
		}
		if news.stuck(len(times)) {
			return times, fmt.Errorf("only %d of %d Tenants of %s are Ready, and none became so for %s", len(times), n, fleet, patience)
		}
		if news.due() {
			o.bench.Say("%d of %d Tenants are Ready", len(times), n)
		}
		select {
		case <-ctx.Done():
			return times, errors.Join(fmt.Errorf("waiting for %d Tenants, of which %d are Ready", n, len(times)), ctx.Err())
		case <-o.bench.Clock.After(glance):
		}
	}
}

// pacer says when it is time to tell how far something is, and when it is no more
// to be believed that it goes on.
type pacer struct {
	clock       clock.PassiveClock
	told, moved time.Time
	last        int
}

// telling is the pause between two words of how far it is.
const telling = 10 * time.Second

func newPacer(c clock.PassiveClock) *pacer {
	now := c.Now()
	return &pacer{clock: c, told: now, moved: now}
}

// due reports, once each ten seconds, that something is to be told.
func (p *pacer) due() bool {
	if p.clock.Since(p.told) < telling {
		return false
	}
	p.told = p.clock.Now()
	return true
}

// stuck reports that the count has been the same for a minute.
func (p *pacer) stuck(count int) bool {
	if count != p.last {
		p.last, p.moved = count, p.clock.Now()
	}
	return p.clock.Since(p.moved) > patience
}
