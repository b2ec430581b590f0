// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"leasehold.dev/test/harness/scenario"
)

// Fleet is several Provers of one subject that work in parallel. Each has a control plane of its
// own: on a shared one the operators would reconcile each other's objects.
type Fleet struct {
	provers []*Prover
}

// StartFleet starts n Provers as Start does. The options' random source seeds one for each. The
// caller has to stop the Fleet.
func StartFleet(ctx context.Context, o Options, n int) (*Fleet, error) {
	f := &Fleet{provers: make([]*Prover, n)}
	o.Salt = o.Salt.OrNew() // any of them may run the clean runs of a scenario
	var all errgroup.Group
	for i := range n {
		mine := o
		mine.Random = rand.New(rand.NewPCG(o.Random.Uint64(), o.Random.Uint64()))
		if i > 0 {
			mine.Subject.Operator.Report = nil // what the first reports is true of all
		}
		all.Go(func() (err error) {
			f.provers[i], err = Start(ctx, mine)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, errors.Join(err, f.Stop(ctx))
	}
	return f, nil
}

// Each calls do n times, each time with the next free Prover, and returns when all calls have
// ended. It starts no more after the first error.
func (f *Fleet) Each(ctx context.Context, n int, do func(ctx context.Context, p *Prover, i int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for _, p := range f.provers {
		all.Go(func() error {
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
	runs := make([][]*cleanRun, len(of))
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

// Stop stops all Provers and returns their errors.
func (f *Fleet) Stop(ctx context.Context) error {
	errs := make([]error, len(f.provers))
	var all sync.WaitGroup
	for i, p := range slices.Clone(f.provers) {
		if p != nil {
			all.Go(func() { errs[i] = p.Stop(ctx) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}
