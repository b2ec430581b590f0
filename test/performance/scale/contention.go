package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/performance/environment"
)

const (
	editors = 4
	// editPeriod is how often each editor changes a Tenant: far more often than users do.
	editPeriod = 25 * time.Millisecond
)

// contention is how many of the operator's writes are refused while others edit its objects.
type contention struct {
	edits int
	spent cost
}

// measureContention has several clients edit the same Tenants.
func measureContention(ctx context.Context, b environment.Parameters, n int,
	lasts time.Duration) (r contention, err error) {
	b.Say("%d editors of %d Tenants: starting a control plane", editors, n)
	f, err := open(ctx, b)
	if err != nil {
		return r, err
	}
	defer f.close(ctx, &err)
	if err := f.create(ctx, n); err != nil {
		return r, err
	}
	if err := f.awaitTenants(ctx, n); err != nil {
		return r, err
	}
	from, err := f.bookmark()
	if err != nil {
		return r, err
	}
	if r.edits, err = f.edit(ctx, n, lasts); err != nil {
		return r, err
	}
	if err := f.settle(ctx, calm); err != nil {
		return r, err
	}
	if r.spent, err = f.costSince(from); err == nil && r.spent.writes == 0 {
		err = errors.New("the operator has written nothing, though its Tenants were changed")
	}
	return r, err
}

// edit changes labels and admins of Tenants at random, without reading them, and returns how
// often.
func (f *testbed) edit(ctx context.Context, tenants int, lasts time.Duration) (edits int, err error) {
	made := make([]int, editors)
	group, ctx := errgroup.WithContext(ctx)
	for editor := range editors {
		random := rand.New(rand.NewPCG(f.bench.Seed, uint64(editor)))
		group.Go(func() error {
			ticker := f.bench.Clock.NewTicker(editPeriod)
			defer ticker.Stop()
			for range int(lasts / editPeriod) {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-ticker.C():
				}
				t := newTenant(random.IntN(tenants))
				patch := fmt.Sprintf(`{"metadata":{"labels":{"example.com/edited":"%d-%d"}}}`, editor, made[editor])
				if random.IntN(2) == 0 {
					patch = fmt.Sprintf(`{"spec":{"admins":[{"kind":"User","name":"editor-%d-%d"}]}}`, editor, made[editor])
				}
				if err := f.Client.Patch(ctx, t, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
					return fmt.Errorf("editing %s: %w", t.Name, err)
				}
				made[editor]++
			}
			return nil
		})
	}
	err = group.Wait()
	for _, n := range made {
		edits += n
	}
	return edits, err
}

func (f *findings) contentionFigures() []figures.Figure {
	if f.contention == nil {
		return nil
	}
	c := f.contention
	return []figures.Figure{{
		ID: "W5", Title: "writes refused as Conflict or AlreadyExists, of 1000", Goal: figures.AtMost(1),
		Runs: []float64{1000 * float64(c.spent.conflicts) / float64(c.spent.writes)},
		Note: fmt.Sprintf("%d of %d writes, with events, while %d clients made %d changes", c.spent.conflicts, c.spent.writes,
			editors, c.edits),
	}}
}
