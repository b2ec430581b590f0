package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// streamEvery is the pause between two Tenants of a stream.
const streamEvery = time.Second

// stream creates one Tenant after the other and measures how long each takes.
type stream struct {
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	tenants []*streamed
	errs    []error
	// fewest is the smallest number of Ready replicas that was seen.
	fewest int
}

// streamed is a Tenant of a stream. Ready is zero if it never was.
type streamed struct {
	Tenant         *v1beta1.Tenant
	Created, Ready time.Time
}

// startStream begins with the first Tenant at once.
func startStream(ctx context.Context) *stream {
	s := &stream{fewest: 1 << 10}
	ctx, s.end = context.WithCancel(ctx)
	s.running.Go(func() {
		ticks := time.NewTicker(streamEvery)
		defer ticks.Stop()
		for ctx.Err() == nil {
			began := time.Now()
			s.running.Go(func() { s.follow(context.WithoutCancel(ctx), began) })
			select {
			case <-ctx.Done():
			case <-ticks.C:
			}
		}
	})
	s.running.Go(func() {
		s.note(wait.PollUntilContextCancel(ctx, poll, true, s.count))
	})
	return s
}

// follow creates a Tenant and waits until it is Ready.
func (s *stream) follow(ctx context.Context, began time.Time) {
	tenant := &streamed{Tenant: newTenant(fmt.Sprintf("e2e-stream-%d", began.UnixMilli()), "a"), Created: began}
	if err := shared.client.Create(ctx, tenant.Tenant); err != nil {
		s.note(fmt.Errorf("creating Tenant %s: %w", tenant.Tenant.Name, err))
		return
	}
	s.mu.Lock()
	s.tenants = append(s.tenants, tenant)
	s.mu.Unlock()
	ready := tenantReady(tenant.Tenant)
	err := wait.PollUntilContextTimeout(ctx, poll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		return ready(ctx) == nil, nil
	})
	if err != nil {
		s.note(fmt.Errorf("waiting for Tenant %s: %w", tenant.Tenant.Name, err))
		return
	}
	tenant.Ready = time.Now()
}

// count looks at how many replicas are Ready.
func (s *stream) count(ctx context.Context) (stop bool, err error) {
	pods, err := shared.pods(ctx)
	if err != nil {
		return ctx.Err() != nil, client.IgnoreNotFound(err)
	}
	ready := 0
	for i := range pods {
		if podReady(&pods[i]) {
			ready++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fewest = min(s.fewest, ready)
	return false, nil
}

func (s *stream) note(err error) {
	if err == nil || wait.Interrupted(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// stop ends the stream and waits until each of its Tenants has become Ready.
func (s *stream) stop() {
	s.end()
	s.running.Wait()
}

// slowest is the Tenant that took longest.
func (s *stream) slowest() *streamed {
	slowest := s.tenants[0]
	for _, t := range s.tenants {
		if t.Ready.Sub(t.Created) > slowest.Ready.Sub(slowest.Created) {
			slowest = t
		}
	}
	return slowest
}

// firstReadySince is when the first of the Tenants that were created since then
// became Ready.
func (s *stream) firstReadySince(t time.Time) time.Time {
	var first time.Time
	for _, tenant := range s.tenants {
		if tenant.Created.After(t) && (first.IsZero() || tenant.Ready.Before(first)) {
			first = tenant.Ready
		}
	}
	return first
}

// objects are all that the stream has created.
func (s *stream) objects() []client.Object {
	var all []client.Object
	for _, t := range s.tenants {
		all = append(all, t.Tenant)
	}
	return all
}
