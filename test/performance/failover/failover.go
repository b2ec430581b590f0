package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/performance/environment"
)

// starting is how many control planes start at once: more of them take each other's time.
const starting = 2

// group are all trials of one subject, and the replicas that do them.
type group struct {
	subject subject
	pairs   []*pair
	losses  []way
	planned int // pauses

	mu        sync.Mutex
	rates     []electionRates
	handovers map[way][]handover
	pauses    []pauseResult
	failures  []error
}

// measurement is one that is under way.
type measurement struct {
	environment.Parameters
	plan   plan
	groups []*group
}

// Measure loses the leader in each way, of the checkout and of its peer, and returns
// how long it took and which replicas wrote meanwhile. A trial without a new leader is an error,
// which says what the replicas had to say; the others count all the same.
func Measure(ctx context.Context, b environment.Parameters) (figures.Section, error) {
	m := &measurement{Parameters: b, plan: full()}
	if b.Quick {
		m.plan = quick()
	}
	err := m.run(ctx, (*pair).populate, func(ctx context.Context) error {
		if err := m.rest(ctx); err != nil {
			return err
		}
		return m.lose(ctx)
	})
	return m.section(), err
}

// prepare makes what the operator works on in a pair's control plane.
type prepare func(*pair, context.Context, plan) error

// run starts the pairs of the checkout and of its peer, and works with them.
func (m *measurement) run(ctx context.Context, prepare prepare, work func(context.Context) error) (err error) {
	m.Say("building the peer, the same operator with the election of controller-runtime")
	peer, remove, err := buildPeer(ctx, m.Checkout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	random := rand.New(rand.NewPCG(m.Seed, 0))
	losses := m.plan.losses(random)
	m.groups = []*group{
		{subject: subject{name: "ours", checkout: m.Checkout}, planned: m.plan.pauses},
		{subject: subject{name: "the peer", suffix: ".peer", checkout: peer}, planned: m.plan.peerPauses},
	}
	for _, g := range m.groups {
		g.losses, g.handovers = losses, map[way][]handover{}
	}
	defer func() { err = errors.Join(err, m.stop(context.WithoutCancel(ctx))) }()
	if err := m.start(ctx, random, prepare); err != nil {
		return err
	}
	return work(ctx)
}

// start starts all pairs, those of the subjects by turns.
func (m *measurement) start(ctx context.Context, random *rand.Rand, prepare prepare) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(starting)
	for range m.plan.pairs {
		for _, g := range m.groups {
			own := rand.New(rand.NewPCG(m.Seed, random.Uint64()))
			all.Go(func() error { return m.startPair(ctx, g, own, prepare) })
		}
	}
	return all.Wait()
}

func (m *measurement) startPair(ctx context.Context, g *group, random *rand.Rand, prepare prepare) error {
	began := m.Clock.Now()
	p, err := startPair(ctx, g.subject, m.plan.setting, m.Clock, random)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.pairs = append(g.pairs, p)
	g.mu.Unlock()
	m.Say("a control plane for %s is there after %.0f s, filling it", g.subject.name, m.Clock.Since(began).Seconds())
	if err := prepare(p, ctx, m.plan); err != nil {
		return fmt.Errorf("filling the control plane of %s: %w\n%s", g.subject.name, err, p.logs())
	}
	m.Say("two replicas of %s and their objects are there after %.0f s", g.subject.name, m.Clock.Since(began).Seconds())
	return nil
}

func (m *measurement) stop(ctx context.Context) error {
	var errs []error
	for _, g := range m.groups {
		for _, p := range g.pairs {
			errs = append(errs, p.stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// each does something with all pairs at once.
func (m *measurement) each(do func(*group, *pair) error) error {
	var all errgroup.Group
	for _, g := range m.groups {
		for _, p := range g.pairs {
			all.Go(func() error { return do(g, p) })
		}
	}
	return all.Wait()
}

// rest counts the election's requests.
func (m *measurement) rest(ctx context.Context) error {
	m.Say("counting what the election asks for in %s of rest", m.plan.idle)
	return m.each(func(g *group, p *pair) error {
		rates, err := p.rest(ctx, m.plan.idle)
		if err != nil {
			return fmt.Errorf("counting the requests of %s: %w", g.subject.name, err)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.rates = append(g.rates, rates)
		return nil
	})
}

// lose makes all trials, in rounds of one on each control plane. All replicas that were lost are
// started between the rounds, because a start takes the time of those that take over.
func (m *measurement) lose(ctx context.Context) error {
	errs := []error{}
	rounds := (len(m.groups[0].losses) + m.plan.pairs - 1) / m.plan.pairs
	for round := range rounds {
		m.Say("round %d of %d: starting who was lost", round+1, rounds)
		err := m.each(func(_ *group, p *pair) error {
			_, err := p.settle(ctx)
			return err
		})
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
		_ = m.each(func(g *group, p *pair) error {
			if n := round*m.plan.pairs + slices.Index(g.pairs, p); n < len(g.losses) {
				g.work(ctx, p, n, m.Say)
			}
			return nil
		})
	}
	for _, g := range m.groups {
		errs = append(errs, g.failures...)
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// work makes a trial of the group.
func (g *group) work(ctx context.Context, p *pair, n int, say func(string, ...any)) {
	w := g.losses[n]
	h, err := p.trial(ctx, w)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.failures = append(g.failures, fmt.Errorf("trial %d: %w", n+1, err))
		say("%s, %s, %d of %d: FAILED, see the end", g.subject.name, w, n+1, len(g.losses))
		return
	}
	g.handovers[w] = append(g.handovers[w], h)
	say("%s, %s, %d of %d: another one worked after %.2f s%s",
		g.subject.name, w, n+1, len(g.losses), h.first.Sub(h.at).Seconds(), zombies(h))
}

func zombies(h handover) string {
	if h.strays == 0 {
		return ""
	}
	return fmt.Sprintf(", and the old one had %d writes accepted", h.strays)
}
