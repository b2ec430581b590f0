// SPDX-License-Identifier: Apache-2.0

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

// load creates one Tenant after the other, measures how long each takes to become Ready, and counts the
// Ready replicas meanwhile.
type load struct {
	// whole: each Tenant is changed when it is Ready, and deleted when it is Ready again.
	whole   bool
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	tenants []*loaded
	errs    []error
	// fewest is the smallest observed number of Ready replicas.
	fewest int
}

// loaded is a Tenant of a load. Ready is zero if the Tenant never was.
type loaded struct {
	Tenant         *v1beta1.Tenant
	Created, Ready time.Time
}

// startLoad creates the first Tenant at once and the others at the interval.
func startLoad(ctx context.Context, every time.Duration, whole bool) *load {
	l := &load{whole: whole, fewest: 1 << 10}
	ctx, l.end = context.WithCancel(ctx)
	l.running.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			l.running.Go(func() { l.note(l.live(context.WithoutCancel(ctx))) })
		}, every)
	})
	l.running.Go(func() {
		// stop cancels the context.
		if err := wait.PollUntilContextCancel(ctx, poll, true, l.count); !wait.Interrupted(err) {
			l.note(err)
		}
	})
	return l
}

// live runs the life cycle of one Tenant; those of others may overlap.
func (l *load) live(ctx context.Context) error {
	t := newTenant(unique("load"), "a")
	one := &loaded{Tenant: t, Created: time.Now()}
	if err := admitted(func() error { return shared.client.Create(ctx, t) }); err != nil {
		return fmt.Errorf("creating Tenant %s: %w", t.Name, err)
	}
	l.mu.Lock()
	l.tenants = append(l.tenants, one)
	l.mu.Unlock()
	if err := until(ctx, "Tenant "+t.Name, tenantReady(t)); err != nil {
		return err
	}
	one.Ready = time.Now()
	if !l.whole {
		return nil
	}
	change := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"namespaces":["a","b"]}}`))
	if err := admitted(func() error { return shared.client.Patch(ctx, t, change) }); err != nil {
		return fmt.Errorf("changing Tenant %s: %w", t.Name, err)
	}
	if err := until(ctx, "the changed Tenant "+t.Name, tenantReady(t)); err != nil {
		return err
	}
	if err := admitted(func() error { return shared.client.Delete(ctx, t) }); err != nil {
		return fmt.Errorf("deleting Tenant %s: %w", t.Name, err)
	}
	return until(ctx, "the end of Tenant "+t.Name, gone(t.DeepCopy()))
}

// count counts the replicas that are Ready.
func (l *load) count(ctx context.Context) (stop bool, err error) {
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fewest = min(l.fewest, ready)
	return false, nil
}

func (l *load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errs = append(l.errs, err)
	}
}

// stop ends the load and waits for the last Tenant.
func (l *load) stop() {
	l.end()
	l.running.Wait()
}

// slowest returns the Tenant that took longest to become Ready.
func (l *load) slowest() (name string, took time.Duration) {
	for _, t := range l.tenants {
		if t.Ready.Sub(t.Created) >= took {
			name, took = t.Tenant.Name, t.Ready.Sub(t.Created)
		}
	}
	return name, took
}

// firstReadySince returns the time at which the first Tenant created after since became Ready.
func (l *load) firstReadySince(since time.Time) time.Time {
	var first time.Time
	for _, t := range l.tenants {
		if t.Created.After(since) && (first.IsZero() || t.Ready.Before(first)) {
			first = t.Ready
		}
	}
	return first
}

// objects returns all objects that the load has created.
func (l *load) objects() []client.Object {
	var all []client.Object
	for _, t := range l.tenants {
		all = append(all, t.Tenant)
	}
	return all
}
