// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"leasehold.dev/test/harness/scenario"
)

// Fleet is several Provers of one subject that work in parallel. Each has a control plane of its
// own: on a shared one the operators would reconcile each other's objects.
type Fleet struct {
	provers []func() (*Prover, error) // each waits until its Prover has started
	cancel  context.CancelFunc        // of the starts
}

// startsAtOnce bounds the Provers that start at a time: the first ones work while others start.
const startsAtOnce = 2

// StartFleet begins to start n Provers as Start does. The options' random source seeds one for each.
// The caller has to stop the Fleet.
func StartFleet(ctx context.Context, o Options, n int) *Fleet {
	f := &Fleet{}
	ctx, f.cancel = context.WithCancel(ctx)
	o.Salt = o.Salt.OrNew() // any of them may run the clean runs of a scenario
	turns := make(chan struct{}, startsAtOnce)
	for i := range n {
		mine := o
		mine.Random = rand.New(rand.NewPCG(o.Random.Uint64(), o.Random.Uint64()))
		if i > 0 {
			mine.Subject.Operator.Report = nil // what the first reports is true of all
		}
		started := sync.OnceValues(func() (*Prover, error) {
			turns <- struct{}{}
			defer func() { <-turns }()
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("starting a prover: %w", err)
			}
			return Start(ctx, mine)
		})
		f.provers = append(f.provers, started)
		go func() { _, _ = started() }() // Each returns the error
	}
	return f
}

// Each calls do n times, each time with the next free Prover, and returns when all calls have
// ended. It starts no more after the first error, which may be that of a Prover that did not start.
func (f *Fleet) Each(ctx context.Context, n int, do func(ctx context.Context, p *Prover, i int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for _, started := range f.provers {
		all.Go(func() error {
			p, err := started()
			if err != nil {
				return err
			}
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := ctx.Err(); err != nil {
					return fmt.Errorf("beginning run %d of %d: %w", i+1, n, err)
				}
				if err := do(ctx, p, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// apart is the time between the beginnings of clean runs of a scenario, at least. What an operator
// writes of the time, in whole seconds, or of a resource version, differs between them by then, as
// the Lease is renewed meanwhile: what all clean runs have counts as the operator's promise.
const apart = 1100 * time.Millisecond

// References makes n clean runs of each scenario, and calls made with each reference, one at a time.
func (f *Fleet) References(ctx context.Context, of []scenario.Scenario, n int,
	made func(i int, ref *Reference) error) error {
	var mu sync.Mutex
	runs := make([][]Judged, len(of))
	return f.Each(ctx, len(of)*n, func(ctx context.Context, p *Prover, run int) error {
		i := run / n
		if err := sleep(ctx, p.clock, time.Duration(run%n)*apart); err != nil {
			return fmt.Errorf("beginning a clean run: %w", err)
		}
		r, err := p.cleanRun(ctx, of[i])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if runs[i] = append(runs[i], r); len(runs[i]) < n {
			return nil
		}
		return made(i, p.reference(of[i], runs[i]))
	})
}

// Stop stops all Provers and returns their errors. It starts no more.
func (f *Fleet) Stop(ctx context.Context) error {
	f.cancel()
	errs := make([]error, len(f.provers))
	var all sync.WaitGroup
	for i, started := range f.provers {
		all.Go(func() {
			if p, err := started(); err == nil { // another one has stopped itself
				errs[i] = p.Stop(ctx)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
