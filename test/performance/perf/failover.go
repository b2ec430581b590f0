// SPDX-License-Identifier: Apache-2.0

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

// plan is the amount of measurement.
type plan struct {
	setting
	ways []way
	// trials and peerTrials are the number of trials of each way for ours and for the peer. The
	// peer needs fewer pauses to show that its stray writes can be counted.
	trials, peerTrials int
	// pairs is the number of control planes of each subject, and tenants the number of Tenants on each.
	pairs, tenants int
	// s3 has the leader call an S3 server continuously.
	s3 bool
}

// Full plans mostly wait for Leases to expire.
var (
	fullPlan    = plan{setting: shipped, ways: ways, trials: 20, peerTrials: 20, pairs: 2, tenants: 200}
	quickPlan   = plan{setting: short, ways: ways, trials: 1, peerTrials: 1, pairs: 1, tenants: 10}
	fullPauses  = plan{setting: short, ways: []way{pause}, trials: 100, peerTrials: 20, pairs: 2, tenants: 10, s3: true}
	quickPauses = plan{setting: short, ways: []way{pause}, trials: 2, peerTrials: 1, pairs: 1, tenants: 10, s3: true}
)

// losses returns so many trials of each way in random order, so that changes on the machine affect
// all ways.
func (p plan) losses(trials int, random *rand.Rand) []way {
	all := slices.Repeat(p.ways, trials)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// group has all trials of one subject, ours or the peer, and the pairs that run them.
type group struct {
	name     string
	suffix   string // of the IDs of its figures
	checkout checkout
	pairs    []*pair
	losses   []way

	mu        sync.Mutex
	handovers map[way][]handover
	failures  []error
}

// comparison is a measurement of both subjects.
type comparison struct {
	bench
	plan   plan
	groups []*group
}

// measureFailover loses the leader of the checkout and of its peer in each way, and returns the
// durations and the writes of other replicas meanwhile. A trial without a new leader is an error,
// which has the replicas' logs; the other trials still count.
func measureFailover(ctx context.Context, b bench) (section, error) {
	return compare(ctx, b, fullPlan, quickPlan, "Losing the leader", failoverText, (*group).figures)
}

// measurePauses pauses a leader that calls S3 continuously until another one leads, and counts the
// calls that still arrive from it. The peer shows that such calls are counted.
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

// start starts all pairs, alternating between the subjects, two at once: more would slow each other down.
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

// each calls do for all pairs concurrently.
func (c *comparison) each(do func(*group, *pair) error) error {
	var all errgroup.Group
	for _, g := range c.groups {
		for _, p := range g.pairs {
			all.Go(func() error { return do(g, p) })
		}
	}
	return all.Wait()
}

// lose runs all trials, in rounds of one on each control plane. Lost replicas are started between
// the rounds, because a start would slow down a takeover.
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

// trial runs one trial of the group and stores its result or its failure.
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
