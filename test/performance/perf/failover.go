package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// setting are the times of an election. A Lease lasts whole seconds.
type setting struct{ lease, renew, retry time.Duration }

var (
	shipped = setting{lease: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}
	short   = setting{lease: 4 * time.Second, renew: 3 * time.Second, retry: 500 * time.Millisecond}
)

// plan is how much is measured.
type plan struct {
	setting
	ways []way
	// trials and peerTrials are how often the leader of ours and of the peer is lost in each way. The
	// peer needs fewer pauses to show that there is something to count.
	trials, peerTrials int
	// pairs are how many control planes each subject has, and tenants how many are on each.
	pairs, tenants int
	// s3 is that the leader calls an S3 server all the time.
	s3 bool
}

// Most of the time of full plans is waiting for Leases to expire.
var (
	fullPlan    = plan{setting: shipped, ways: ways, trials: 20, peerTrials: 20, pairs: 2, tenants: 200}
	quickPlan   = plan{setting: short, ways: ways, trials: 1, peerTrials: 1, pairs: 1, tenants: 10}
	fullPauses  = plan{setting: short, ways: []way{pause}, trials: 100, peerTrials: 20, pairs: 2, tenants: 10, s3: true}
	quickPauses = plan{setting: short, ways: []way{pause}, trials: 2, peerTrials: 1, pairs: 1, tenants: 10, s3: true}
)

// losses are the ways of so many trials of each, in an order of chance, so that what changes on the
// machine meanwhile meets them all.
func (p plan) losses(trials int, random *rand.Rand) []way {
	all := slices.Repeat(p.ways, trials)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// group are all trials of one subject, ours or what it is compared with, and the pairs that do them.
type group struct {
	name     string
	suffix   string // of its figures
	checkout checkout
	pairs    []*pair
	losses   []way

	mu        sync.Mutex
	handovers map[way][]handover
	failures  []error
}

// comparison is one measurement of both subjects.
type comparison struct {
	bench
	plan   plan
	groups []*group
}

// measureFailover loses the leader in each way, of the checkout and of its peer, and returns
// how long it took and which replicas wrote meanwhile. A trial without a new leader is an error,
// which has the replicas' logs; the others count all the same.
func measureFailover(ctx context.Context, b bench) (section, error) {
	return compare(ctx, b, fullPlan, quickPlan, "Losing the leader", failoverText, (*group).figures)
}

// measurePauses pauses a leader that calls S3 all the time until another one leads, and counts
// what still arrives from it. The peer shows that there would be something to count.
func measurePauses(ctx context.Context, b bench) (section, error) {
	return compare(ctx, b, fullPauses, quickPauses, "A leader that is paused past its Lease", pausesText,
		(*group).pauseFigures)
}

func compare(ctx context.Context, b bench, full, quick plan, title string, text func(plan) string,
	figuresOf func(*group, setting) []figure) (section, error) {
	c := &comparison{bench: b, plan: full}
	if b.quick {
		c.plan = quick
	}
	err := c.run(ctx)
	s := section{Title: title, Text: text(c.plan)}
	for _, g := range c.groups {
		s.Figures = append(s.Figures, figuresOf(g, c.plan.setting)...)
	}
	return s, err
}

func (c *comparison) run(ctx context.Context) (err error) {
	c.logf("building the peer")
	peer, remove, err := buildPeer(ctx, c.checkout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	random := rand.New(rand.NewPCG(c.seed, 0))
	for _, g := range []*group{{name: "ours", checkout: c.checkout}, {name: "the peer", suffix: ".peer", checkout: peer}} {
		trials := c.plan.trials
		if g.suffix != "" {
			trials = c.plan.peerTrials
		}
		g.losses, g.handovers = c.plan.losses(trials, random), map[way][]handover{}
		c.groups = append(c.groups, g)
	}
	defer func() {
		err = errors.Join(err, c.each(func(_ *group, p *pair) error { return p.stop(context.WithoutCancel(ctx)) }))
	}()
	if err := c.start(ctx, random); err != nil {
		return err
	}
	return c.lose(ctx)
}

// start starts all pairs, those of the subjects by turns, two at once: more of them take each other's
// time.
func (c *comparison) start(ctx context.Context, random *rand.Rand) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(2)
	for range c.plan.pairs {
		for _, g := range c.groups {
			p := &pair{name: g.name, plan: c.plan, random: rand.New(rand.NewPCG(c.seed, random.Uint64()))}
			g.pairs = append(g.pairs, p)
			all.Go(func() error {
				began := time.Now()
				if err := p.start(ctx, g.checkout); err != nil {
					return fmt.Errorf("starting two replicas of %s: %w\n%s", g.name, err, p.logs())
				}
				c.logf("two replicas of %s and their objects are there after %.0f s", g.name, time.Since(began).Seconds())
				return nil
			})
		}
	}
	return all.Wait()
}

// each does something with all pairs at once.
func (c *comparison) each(do func(*group, *pair) error) error {
	var all errgroup.Group
	for _, g := range c.groups {
		for _, p := range g.pairs {
			all.Go(func() error { return do(g, p) })
		}
	}
	return all.Wait()
}

// lose makes all trials, in rounds of one on each control plane. All replicas that were lost are
// started between the rounds, because a start takes the time of those that take over.
func (c *comparison) lose(ctx context.Context) error {
	errs := []error{}
	rounds := (len(c.groups[0].losses) + c.plan.pairs - 1) / c.plan.pairs
	for round := range rounds {
		c.logf("round %d of %d: starting what was lost", round+1, rounds)
		err := c.each(func(_ *group, p *pair) error {
			_, err := p.settle(ctx)
			return err
		})
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
		_ = c.each(func(g *group, p *pair) error {
			if n := round*c.plan.pairs + slices.Index(g.pairs, p); n < len(g.losses) {
				g.trial(ctx, p, n, c.logf)
			}
			return nil
		})
	}
	for _, g := range c.groups {
		errs = append(errs, g.failures...)
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// trial makes a trial of the group, and keeps its result or its failure.
func (g *group) trial(ctx context.Context, p *pair, n int, logf func(string, ...any)) {
	w := g.losses[n]
	h, err := p.trial(ctx, w)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.failures = append(g.failures, fmt.Errorf("trial %d: losing the leader of %s by %s: %w\n%s", n+1, g.name, w, err,
			p.logs()))
		logf("%s, %s, %d of %d: FAILED, see the end", g.name, w, n+1, len(g.losses))
		return
	}
	g.handovers[w] = append(g.handovers[w], h)
	logf("%s, %s, %d of %d: another one worked after %.2f s; the old one had %d writes accepted and made %d S3 requests",
		g.name, w, n+1, len(g.losses), h.first.Sub(h.at).Seconds(), h.strays, h.calls)
}
