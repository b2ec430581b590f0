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

// churnEvery is the pause between two Tenants of a churn.
const churnEvery = 2 * time.Second

// churn creates Tenants all the time, changes each when it is Ready, and deletes it when it is
// Ready again.
type churn struct {
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	lives   int
	slowest time.Duration // of all waits for Ready
	errs    []error
}

// startChurn begins with the first Tenant at once.
func startChurn(ctx context.Context) *churn {
	c := &churn{}
	ctx, c.end = context.WithCancel(ctx)
	c.running.Go(func() {
		ticks := time.NewTicker(churnEvery)
		defer ticks.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			tenant := newTenant(fmt.Sprintf("%s-%d", unique("churn"), n), "a")
			c.running.Go(func() { c.note(c.live(context.WithoutCancel(ctx), tenant)) })
			select {
			case <-ctx.Done():
			case <-ticks.C:
			}
		}
	})
	return c
}

// live is the life of one Tenant.
func (c *churn) live(ctx context.Context, t *v1beta1.Tenant) error {
	if err := shared.client.Create(ctx, t); err != nil {
		return fmt.Errorf("creating Tenant %s: %w", t.Name, err)
	}
	if err := c.awaitReady(ctx, t); err != nil {
		return err
	}
	change := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"namespaces":["a","b"]}}`))
	if err := shared.client.Patch(ctx, t, change); err != nil {
		return fmt.Errorf("changing Tenant %s: %w", t.Name, err)
	}
	if err := c.awaitReady(ctx, t); err != nil {
		return err
	}
	if err := shared.client.Delete(ctx, t); err != nil {
		return fmt.Errorf("deleting Tenant %s: %w", t.Name, err)
	}
	return c.awaitTrue(ctx, t, "is gone", gone(t.DeepCopy()))
}

func (c *churn) awaitReady(ctx context.Context, t *v1beta1.Tenant) error {
	began := time.Now()
	err := c.awaitTrue(ctx, t, "is Ready", tenantReady(t))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest = max(c.slowest, time.Since(began))
	return err
}

func (c *churn) awaitTrue(ctx context.Context, t *v1beta1.Tenant, what string,
	check func(context.Context) error) error {
	err := wait.PollUntilContextTimeout(ctx, poll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		return check(ctx) == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until Tenant %s %s: %w", t.Name, what, err)
	}
	return nil
}

func (c *churn) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives++
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// stop ends it, once the last Tenant is gone.
func (c *churn) stop() {
	c.end()
	c.running.Wait()
}
