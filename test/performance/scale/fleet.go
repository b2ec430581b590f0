package scale

import (
	"context"
	"time"

	"leasehold.dev/test/performance/environment"
)

// fleet is the result for one fleet of Tenants.
type fleet struct {
	n int
	// took is from the election of the leader to the last Tenant's Ready.
	took  time.Duration
	spent cost
	// first is from the election to the operator's first write.
	first time.Duration
	// empty is before there was any Tenant, worked right after all were made, known of a
	// process that has found them made.
	empty, worked, known footprint
}

// heapEach is the growth of the heap for each Tenant.
func (r fleet) heapEach() float64 { return (r.known.heap - r.empty.heap) / float64(r.n) }

func (r fleet) writesEach() float64 { return float64(r.spent.writes) / float64(r.n) }

// idle is the share of the workers' time in which the API server had no write of theirs to answer:
// what the operator itself takes, and waits for. A worker has one write under way at a time, and
// makes no other request, as the number of live reads shows.
func (r fleet) idle() float64 { return 1 - float64(r.spent.answering)/float64(workers*r.took) }

// measureFleet has the operator make a fleet that is there when it begins to lead.
func measureFleet(ctx context.Context, b environment.Parameters, n int) (r fleet, err error) {
	b.Say("%d Tenants: starting a control plane", n)
	f, err := open(ctx, b, unlimited...)
	if err != nil {
		return r, err
	}
	defer f.close(ctx, &err)
	r.n = n
	if r.empty, err = f.footprint(ctx); err != nil {
		return r, err
	}
	if err := f.rest(ctx, f.replica); err != nil {
		return r, err
	}
	if err := f.create(ctx, n); err != nil {
		return r, err
	}
	if err := f.converge(ctx, &r); err != nil {
		return r, err
	}
	b.Say("%d Tenants: all Ready after %.1f s; looking at the memory", n, r.took.Seconds())
	if r.worked, err = f.footprint(ctx); err != nil {
		return r, err
	}
	if err := f.rest(ctx, f.replica); err != nil {
		return r, err
	}
	if err := f.lead(ctx); err != nil {
		return r, err
	}
	if err := f.AwaitReady(ctx); err != nil {
		return r, err
	}
	if err := f.settle(ctx, calm); err != nil {
		return r, err
	}
	r.known, err = f.footprint(ctx)
	return r, err
}

// converge lets the replica lead and waits until the fleet is Ready. The last write that is not
// an event is the status by which the last Tenant is Ready.
func (f *testbed) converge(ctx context.Context, r *fleet) error {
	if err := f.settle(ctx, calm); err != nil {
		return err
	}
	from, err := f.bookmark()
	if err != nil {
		return err
	}
	if err := f.lead(ctx); err != nil {
		return err
	}
	if err := f.awaitTenants(ctx, r.n); err != nil {
		return err
	}
	began, err := f.led(ctx)
	if err != nil {
		return err
	}
	r.spent, err = f.costSince(from)
	r.first, r.took = r.spent.first.Sub(began), r.spent.last.Sub(began)
	return err
}

// awaitTenants returns when nothing happens any more, with at least n Tenants, all Ready. Events
// are sent beside all other work and may be late.
func (f *testbed) awaitTenants(ctx context.Context, n int) error {
	err := environment.Await(ctx, calm, patience+time.Duration(n)*slowest, "Tenants to be Ready",
		func(ctx context.Context) error {
			if err := f.settle(ctx, calm); err != nil {
				return err
			}
			return f.TenantsReady(ctx, n)
		})
	if err != nil {
		return err
	}
	return f.settle(ctx, tries*calm)
}

// measureLimit has a fleet made while the operator leads, at the limits that ship, as users do.
func measureLimit(ctx context.Context, b environment.Parameters, n int) (r fleet, err error) {
	b.Say("%d Tenants at the limits that ship: starting a control plane", n)
	f, err := open(ctx, b)
	if err != nil {
		return r, err
	}
	defer f.close(ctx, &err)
	if err := f.settle(ctx, calm); err != nil {
		return r, err
	}
	from, err := f.bookmark()
	if err != nil {
		return r, err
	}
	began := b.Clock.Now()
	if err := f.create(ctx, n); err != nil {
		return r, err
	}
	if err := f.awaitTenants(ctx, n); err != nil {
		return r, err
	}
	r.n = n
	r.spent, err = f.costSince(from)
	r.took = r.spent.last.Sub(began)
	return r, err
}
