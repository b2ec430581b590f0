package scale

import (
	"context"
	"fmt"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/performance/environment"
)

// warmUp is the number of Tenants of the first practice, which is not measured.
const warmUp = 10

// Names of fleets, all as long as that of the model.
const (
	fleetCold   = "fleet" // the operator finds it when it begins to lead
	fleetOnline = "swarm" // the operator leads while it is created
	fleetWarm   = "proof" // written by us, as the next two, before anything is measured
	fleetBefore = "prior"
	fleetAfter  = "after"
)

// fleet is the result for one fleet of Tenants.
type fleet struct {
	n int
	// before and after are how fast this package wrote.
	before, after pace
	// took is from the election of the leader to the last Tenant's Ready.
	took  time.Duration
	spent cost
	// first is from the election to the operator's first write.
	first time.Duration
	// empty is before there was any Tenant, worked right after all were made, known of a
	// process that has found them made.
	empty, worked, known footprint
}

// heapEach is the growth of the heap for each Tenant. The namespaces and bindings that practise
// writes stay when its Tenants are deleted, so those Tenants count too.
func (r fleet) heapEach() float64 {
	return (r.known.heap - r.empty.heap) / float64(r.n+warmUp+2*sample(r.n))
}

// ratio is the operator's time over the time of the same writes alone. The time of one write is the
// mean of before and after.
func (r fleet) ratio(writesEach int) float64 {
	write := (r.before.each() + r.after.each()) / 2
	return r.took.Seconds() / (float64(r.n*writesEach) * write.Seconds())
}

// sample is the number of Tenants of a practice: enough to take seconds, and few beside a fleet.
func sample(n int) int { return min(max(n/4, 10), 250) }

// measureFleet has the operator make a fleet that is there when it begins to lead, between
// two times of writing the same ourselves, so that what drifts is seen: the machine
// does, and an API server that has more to keep is slower.
func measureFleet(ctx context.Context, b environment.Parameters, s shape, n int) (r fleet, err error) {
	b.Say("%d Tenants: starting a control plane", n)
	f, err := open(ctx, b, auditv1.LevelMetadata, unlimited...)
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
	if _, err := f.practise(ctx, s, fleetWarm, warmUp); err != nil {
		return r, err
	}
	if r.before, err = f.practise(ctx, s, fleetBefore, sample(n)); err != nil {
		return r, err
	}
	b.Say("%d Tenants: a client that only writes makes %.0f writes a second; creating them", n, r.before.rate())
	if _, err := f.create(ctx, fleetCold, n); err != nil {
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
	if r.after, err = f.practise(ctx, s, fleetAfter, sample(n)); err != nil {
		return r, err
	}
	b.Say("%d Tenants: a client that only writes now makes %.0f writes a second", n, r.after.rate())
	if err := f.lead(ctx); err != nil {
		return r, err
	}
	if err := f.AwaitReady(ctx); err != nil {
		return r, err
	}
	if err := f.settle(ctx); err != nil {
		return r, err
	}
	r.known, err = f.footprint(ctx)
	return r, err
}

// practise writes for a fleet that is not reconciled, and deletes the fleet.
func (f *testbed) practise(ctx context.Context, s shape, fleet string, n int) (pace, error) {
	uids, err := f.create(ctx, fleet, n)
	if err != nil {
		return pace{}, err
	}
	p, err := f.write(ctx, s, fleet, uids)
	if err != nil {
		return pace{}, fmt.Errorf("writing what the operator writes: %w", err)
	}
	return p, f.drop(ctx, fleet, n)
}

// converge lets the replica lead and waits until the fleet is Ready. The last write that is not
// an event is the status by which the last Tenant is Ready.
func (f *testbed) converge(ctx context.Context, r *fleet) error {
	if err := f.settle(ctx); err != nil {
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
	err := environment.Await(ctx, calm, patience+time.Duration(n)*slowest, "Tenants to be Ready", func(ctx context.Context) error {
		if err := f.settle(ctx); err != nil {
			return err
		}
		return f.TenantsReady(ctx, n)
	})
	if err != nil {
		return err
	}
	return f.settleFor(ctx, tries*calm)
}

// limited is what users get at the limits that ship.
type limited struct {
	n    int
	took time.Duration
}

// measureLimit learns the shape of what is written for one Tenant, and then has a fleet
// made at the limits that ship.
func measureLimit(ctx context.Context, b environment.Parameters, n int) (s shape, r limited, err error) {
	b.Say("%d Tenants at the limits that ship: starting a control plane", n)
	f, err := open(ctx, b, auditv1.LevelRequestResponse)
	if err != nil {
		return nil, r, err
	}
	defer f.close(ctx, &err)
	if s, err = f.model(ctx); err != nil {
		return nil, r, err
	}
	from, err := f.bookmark()
	if err != nil {
		return nil, r, err
	}
	r.n = n
	began := b.Clock.Now()
	if _, err := f.create(ctx, fleetOnline, n); err != nil {
		return nil, r, err
	}
	if err := f.awaitTenants(ctx, n); err != nil {
		return nil, r, err
	}
	spent, err := f.costSince(from)
	r.took = spent.last.Sub(began)
	return s, r, err
}

// model has the operator make one Tenant and looks what it writes for it.
func (f *testbed) model(ctx context.Context) (shape, error) {
	if err := f.settle(ctx); err != nil {
		return nil, err
	}
	from, err := f.bookmark()
	if err != nil {
		return nil, err
	}
	t := newTenant(modelName)
	if err := f.Client.Create(ctx, t); err != nil {
		return nil, fmt.Errorf("creating Tenant %s: %w", t.Name, err)
	}
	if err := f.awaitTenants(ctx, 1); err != nil {
		return nil, err
	}
	events, err := f.eventsSince(from)
	if err != nil {
		return nil, err
	}
	return shapeOf(events, t.UID)
}
