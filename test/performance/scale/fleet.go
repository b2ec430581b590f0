package scale

import (
	"context"
	"fmt"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/performance/environment"
)

// Names of fleets, all as long as that of the model.
const (
	fleetCold   = "fleet" // the operator finds it when it begins to lead
	fleetOnline = "swarm" // the operator leads while it is created
	fleetWarm   = "proof" // written by us, as the next two, before anything is measured
	fleetBefore = "prior"
	fleetAfter  = "after"
)

// fleet is what became of one fleet of Tenants.
type fleet struct {
	n int
	// members is how many Tenants were made in all, with those that we wrote for.
	members int
	// before and after are how fast we wrote.
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

// ratio is how many times as long the operator took as we would have for what
// has to be written; the time of one write is the mean of before and after.
func (r fleet) ratio(writesEach int) float64 {
	write := (r.before.each() + r.after.each()) / 2
	return r.took.Seconds() / (float64(r.n*writesEach) * write.Seconds())
}

// sample is for how many Tenants we write to learn how fast that goes: enough to take
// seconds, and few beside a fleet.
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
	r.n, r.members = n, n+10+2*sample(n)
	if r.empty, err = f.footprint(ctx); err != nil {
		return r, err
	}
	eye, err := f.look(ctx)
	if err != nil {
		return r, err
	}
	defer eye.close()

	if err := f.rest(ctx, f.replica); err != nil {
		return r, err
	}
	if _, err := f.practise(ctx, s, fleetWarm, 10); err != nil {
		return r, err
	}
	if r.before, err = f.practise(ctx, s, fleetBefore, sample(n)); err != nil {
		return r, err
	}
	b.Say("%d Tenants: a client that only writes makes %.0f writes a second; creating them", n, r.before.rate())
	if _, err := f.create(ctx, fleetCold, n); err != nil {
		return r, err
	}
	if err := f.converge(ctx, eye, s, &r); err != nil {
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

// practise writes for a fleet that nobody reconciles, and has it go away.
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

// converge lets the replica lead and waits until the fleet is Ready.
func (f *testbed) converge(ctx context.Context, eye *watcher, s shape, r *fleet) error {
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
	times, err := eye.await(ctx, fleetCold, r.n)
	if err != nil {
		return err
	}
	began, err := f.led(ctx)
	if err != nil {
		return err
	}
	r.took = times[len(times)-1].Sub(began)
	r.spent, err = f.costOf(ctx, from, r.n*len(s))
	r.first = r.spent.first.Sub(began)
	return err
}

// swarm creates a fleet before the operator's eyes.
func (f *testbed) swarm(ctx context.Context, fleet string, n int) (time.Duration, error) {
	eye, err := f.look(ctx)
	if err != nil {
		return 0, err
	}
	defer eye.close()
	began := f.bench.Clock.Now()
	if _, err := f.create(ctx, fleet, n); err != nil {
		return 0, err
	}
	times, err := eye.await(ctx, fleet, n)
	if err != nil {
		return 0, err
	}
	return times[n-1].Sub(began), nil
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
	r.n = n
	r.took, err = f.swarm(ctx, fleetOnline, n)
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
	eye, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	defer eye.close()
	t := newTenant(modelName)
	if err := f.Client.Create(ctx, t); err != nil {
		return nil, fmt.Errorf("creating Tenant %s: %w", t.Name, err)
	}
	if _, err := eye.await(ctx, "shape", 1); err != nil {
		return nil, err
	}
	// An event that was missed here would be missing from all that follows.
	if err := f.settleFor(ctx, tries*calm); err != nil {
		return nil, err
	}
	events, err := f.eventsSince(from)
	if err != nil {
		return nil, err
	}
	return shapeOf(events, t.UID)
}
