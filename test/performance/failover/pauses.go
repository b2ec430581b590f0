package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/leasehold"
	"leasehold.dev/test/performance/environment"
)

// exitWithin is how long a leader that wakes after its term may take to end.
const exitWithin = 100 * time.Millisecond

// pauseResult is what came of one pause of a leader past its Lease.
type pauseResult struct {
	underWay int // S3 requests that had no answer yet when it was paused
	// calls are the S3 requests that arrived after the leader's term from any process but the
	// next leader's.
	calls int
	exit  time.Duration // from SIGCONT to the end of the process
}

// MeasurePauses pauses a leader that calls S3 all the time until another one leads, and counts
// what still arrives from it. The peer shows that there would be something to count.
func MeasurePauses(ctx context.Context, b environment.Parameters) (figures.Section, error) {
	m := &measurement{Parameters: b, plan: fullPauses()}
	if b.Quick {
		m.plan = quickPauses()
	}
	err := m.run(ctx, (*pair).startOutside, m.pause)
	section := figures.Section{ID: "pauses", Title: "A leader that is paused past its Lease", Text: pausesText}
	for _, g := range m.groups {
		section.Figures = append(section.Figures, g.pauseFigures()...)
	}
	return section, err
}

// pause makes the pauses of each subject, in equal parts on its control planes. One that fails does
// not stop the others: the next one starts again what has ended.
func (m *measurement) pause(ctx context.Context) error {
	errs := []error{m.each(func(g *group, p *pair) error {
		for range g.planned / m.plan.pairs {
			if err := ctx.Err(); err != nil {
				return err
			}
			g.pause(ctx, p, m.Say)
		}
		return nil
	})}
	for _, g := range m.groups {
		errs = append(errs, g.failures...)
	}
	return errors.Join(errs...)
}

// pause makes one pause of the group, and keeps its result or its failure.
func (g *group) pause(ctx context.Context, p *pair, say func(string, ...any)) {
	one, err := p.pauseOnce(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.failures = append(g.failures, fmt.Errorf("pausing the leader of %s: %w\n%s", g.subject.name, err, p.logs()))
		return
	}
	g.pauses = append(g.pauses, one)
	say("%s, pause %d of %d: %d requests under way, %d calls after the term, exit after %s",
		g.subject.name, len(g.pauses), g.planned, one.underWay, one.calls, one.exit.Round(time.Millisecond))
}

// pauseOnce pauses the leader, in the middle of requests to S3, and wakes it when another
// replica leads.
func (p *pair) pauseOnce(ctx context.Context) (one pauseResult, err error) {
	proxy := p.outside.proxy
	leader, err := p.settle(ctx)
	if err != nil {
		return one, err
	}
	if leader, err = p.sometime(ctx, leader); err != nil {
		return one, err
	}
	err = environment.Await(ctx, time.Millisecond, patience, "requests to S3", func(context.Context) error {
		if n := proxy.Open(fault.Match{}); n < busy {
			return fmt.Errorf("%d are under way", n)
		}
		return nil
	})
	if err != nil {
		return one, err
	}
	p.lost = leader
	over := p.ending(ctx, leader)
	proxy.Forget()
	if err := leader.Pause(ctx); err != nil {
		return one, errors.Join(err, leader.Resume())
	}
	one.underWay = proxy.Open(fault.Match{})
	end, successor, err := p.awaitExpiry(ctx, leader)
	woken := p.clock.Now()
	if err := errors.Join(err, leader.Resume()); err != nil {
		return one, err
	}
	ended, err := awaitEnd(ctx, over, leader, p.setting.renew+patience/4)
	if err != nil {
		return one, err
	}
	one.exit = ended.Sub(woken)
	if err := p.pass(ctx, trailing); err != nil {
		return one, err
	}
	one.calls = callsAfter(proxy.Journal(), end, successor.Name())
	return one, nil
}

// awaitExpiry waits until another replica than the leader, which is paused, holds the Lease.
// The leader's term ended one lease duration after the last renewal that it had sent.
func (p *pair) awaitExpiry(ctx context.Context,
	leader *env.Replica) (end time.Time, successor *env.Replica, err error) {
	err = environment.Await(ctx, poll, 2*p.setting.lease+patience/4, "another leader", func(ctx context.Context) error {
		lease, err := leasehold.ElectionLease(ctx, p.environment.Client)
		if err != nil {
			return err
		}
		successor = leasehold.Holder(lease, p.environment.Installation.Replicas())
		switch successor {
		case leader:
			end = lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
			return errNoSuccessor
		case nil:
			return errNoSuccessor
		}
		return nil
	})
	if err == nil && end.IsZero() {
		err = errors.New("the leader lost the Lease before it was paused")
	}
	return end, successor, err
}

// callsAfter counts requests that arrived after the end of a term, but for those of the
// replica that led then.
func callsAfter(j fault.Journal, end time.Time, successor string) int {
	n := 0
	for _, r := range j.Requests {
		if r.Received.After(end) && j.Peer(r) != successor {
			n++
		}
	}
	return n
}

// pauseFigures are those of one subject.
func (g *group) pauseFigures() []figures.Figure {
	runs := func(value func(pauseResult) float64) []float64 {
		var all []float64
		for _, one := range g.pauses {
			all = append(all, value(one))
		}
		return all
	}
	return []figures.Figure{
		g.figure("F8.calls", "S3 requests of a leader that was paused, after its term, in each pause", "",
			runs(func(one pauseResult) float64 { return float64(one.calls) }), figures.Exactly(0),
			"of the process that led, by the owner of the connection; nothing but its guard rejects them"),
		g.figure("F8.exit", "from SIGCONT after the term to the end of the process", "ms",
			runs(func(one pauseResult) float64 { return milliseconds(one.exit) }), figures.AtMost(milliseconds(exitWithin)), ""),
	}
}

var pausesText = fmt.Sprintf(`Two replicas as processes, with %d StorageBuckets that are probed every %d s at an S3
server whose answers take %s. The leader gets SIGSTOP while at least %d requests are under way, and SIGCONT when
another replica holds the Lease. A proxy before the S3 server records the time of each request and which process sent
it. The term ended one Lease after the last renewal that the API server accepted. The peer, with the election of
controller-runtime, has no guard.`, observed, probePeriod, latency, busy)
