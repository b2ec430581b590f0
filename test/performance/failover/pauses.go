package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/figures"
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

// pauser is all pauses of one subject.
type pauser struct {
	subject subject
	planned int

	mu     sync.Mutex
	begun  int
	pauses []pauseResult
}

// pairsPaused is how many control planes each subject has.
const pairsPaused = 2

// MeasurePauses pauses a leader that calls S3 all the time until another one leads, and counts
// what still arrives from it. The peer shows that there would be something to count.
func MeasurePauses(ctx context.Context, b environment.Parameters) (section figures.Section, err error) {
	ours := &pauser{planned: 100}
	peer := &pauser{planned: 20}
	if b.Quick {
		ours.planned, peer.planned = 2, 1
	}
	began := b.Clock.Now()
	defer func() {
		section = figures.Section{ID: "pauses", Title: "A leader that is paused past its Lease", Text: pausesText}
		section.Figures = append(ours.figures(), peer.figures()...)
		section.Took = b.Clock.Since(began)
		if err != nil {
			section.Failure = err.Error()
		}
	}()
	b.Say("building the peer, the same operator with the election of controller-runtime")
	checkout, remove, err := buildPeer(ctx, b.Checkout)
	if err != nil {
		return section, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	ours.subject = subject{name: "ours", checkout: b.Checkout}
	peer.subject = subject{name: "the peer", suffix: ".peer", checkout: checkout}
	random := rand.New(rand.NewPCG(b.Seed, 1))
	var all errgroup.Group
	for _, s := range []*pauser{ours, peer} {
		for range min(pairsPaused, s.planned) {
			own := rand.New(rand.NewPCG(b.Seed, random.Uint64()))
			all.Go(func() error { return s.run(ctx, b, own) })
		}
	}
	return section, all.Wait()
}

// run pauses the leader of one control plane until all pauses of the subject are begun.
func (s *pauser) run(ctx context.Context, b environment.Parameters, random *rand.Rand) (err error) {
	p, err := startPair(ctx, s.subject, short, b.Clock, random)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop(context.WithoutCancel(ctx))) }()
	o, err := p.startOutside(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.stop()) }()
	var errs []error
	for s.begin() && ctx.Err() == nil {
		one, err := p.pauseOnce(ctx, o)
		if err != nil {
			// The next pause starts again what has ended.
			errs = append(errs, fmt.Errorf("pausing the leader of %s: %w\n%s", s.subject.name, err, p.logs()))
			continue
		}
		s.mu.Lock()
		s.pauses = append(s.pauses, one)
		n := len(s.pauses)
		s.mu.Unlock()
		b.Say("%s, pause %d of %d: %d requests under way, %d calls after the term, exit after %s",
			s.subject.name, n, s.planned, one.underWay, one.calls, one.exit.Round(time.Millisecond))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

func (s *pauser) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	return s.begun <= s.planned
}

// pauseOnce pauses the leader, in the middle of requests to S3, and wakes it when another
// replica leads.
func (p *pair) pauseOnce(ctx context.Context, o *outside) (one pauseResult, err error) {
	leader, err := p.settle(ctx)
	if err != nil {
		return one, err
	}
	if leader, err = p.sometime(ctx, leader); err != nil {
		return one, err
	}
	err = environment.Await(ctx, time.Millisecond, patience, "requests to S3", func(context.Context) error {
		if n := o.proxy.Open(fault.Match{}); n < busy {
			return fmt.Errorf("%d are under way", n)
		}
		return nil
	})
	if err != nil {
		return one, err
	}
	p.lost = leader
	over := p.ending(ctx, leader)
	o.proxy.Forget()
	if err := leader.Pause(ctx); err != nil {
		return one, errors.Join(err, leader.Resume())
	}
	one.underWay = o.proxy.Open(fault.Match{})
	end, successor, err := p.awaitExpiry(ctx, leader)
	woken := p.clock.Now()
	if err := errors.Join(err, leader.Resume()); err != nil {
		return one, err
	}
	limited, cancel := context.WithTimeout(ctx, p.setting.renew+patience/4)
	defer cancel()
	select {
	case ended := <-over:
		one.exit = ended.Sub(woken)
	case <-limited.Done():
		leader.Kill() // so that the next pause begins like others
		return one, fmt.Errorf("waiting for the old leader's end, and killing it: %w", limited.Err())
	}
	if err := p.pass(ctx, trailing); err != nil {
		return one, err
	}
	one.calls = callsAfter(o.proxy.Journal(), end, successor.Name())
	return one, nil
}

// awaitExpiry waits until another replica than the leader, which is paused, holds the Lease.
// The leader's term ended one lease duration after the last renewal that it had sent.
func (p *pair) awaitExpiry(ctx context.Context, leader *env.Replica) (end time.Time, successor *env.Replica, err error) {
	err = environment.Await(ctx, poll, 2*p.setting.lease+patience/4, "another leader", func(ctx context.Context) error {
		var lease coordinationv1.Lease
		if err := p.environment.Client.Get(ctx, client.ObjectKey{Namespace: environment.Namespace, Name: environment.Lease}, &lease); err != nil {
			return fmt.Errorf("reading the election Lease: %w", err)
		}
		successor = p.environment.Holder(&lease)
		switch successor {
		case leader:
			end = lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
			return errNobody
		case nil:
			return errNobody
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

// figures are those of one subject.
func (s *pauser) figures() []figures.Figure {
	g := &group{subject: s.subject}
	runs := func(value func(pauseResult) float64) []float64 {
		var all []float64
		for _, one := range s.pauses {
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

var pausesText = fmt.Sprintf(`Two replicas as processes, with %d StorageBuckets that are probed every %d s at an S3 server whose answers take %s.
The leader gets SIGSTOP while at least %d requests are under way, and SIGCONT when another replica holds the Lease. A proxy before the S3
server records the time of each request and which process sent it. The term ended one Lease after the last renewal that the API server accepted.
The peer, with the election of controller-runtime, has no guard.`, observed, probePeriod, latency, busy)
