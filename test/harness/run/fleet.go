package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Fleet are several Provers of one subject that work side by side. Each has a
// control plane of its own: on one, two operators would reconcile each other's
// objects.
type Fleet struct {
	provers []*Prover
}

// StartFleet starts n Provers as Start does. Each draws from a source of its own,
// seeded by the options'. The Fleet has to be stopped.
func StartFleet(ctx context.Context, o Options, n int) (*Fleet, error) {
	f := &Fleet{provers: make([]*Prover, n)}
	var all errgroup.Group
	for i := range n {
		mine := o
		mine.Random = rand.New(rand.NewPCG(o.Random.Uint64(), o.Random.Uint64()))
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

// Size is how many Provers there are.
func (f *Fleet) Size() int { return len(f.provers) }

// Each does n things, each with the Prover that is free next, in the order of their
// numbers, and returns when all are done. After the first error no more are begun.
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

// Stop stops all Provers and returns what went wrong with them.
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
