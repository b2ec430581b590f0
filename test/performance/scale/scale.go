package scale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/performance/environment"
)

// sizes say how much is measured.
type sizes struct {
	// limited is how many Tenants are made at the limits that ship.
	limited int
	// fleets are the numbers of Tenants, in the order in which they are measured. What
	// is there more than once is measured as often.
	fleets []int
	// edited is how many Tenants are edited at a time, and editing for how long.
	edited  int
	editing time.Duration
	// buckets are how many StorageBuckets, each probed once a period.
	buckets int
	period  time.Duration
}

var (
	full  = sizes{limited: 100, fleets: []int{1000, 250, 5000, 1000, 1000}, edited: 50, editing: 5 * time.Second, buckets: 10_000, period: time.Minute}
	quick = sizes{limited: 10, fleets: []int{20, 40}, edited: 5, editing: time.Second, buckets: 100, period: 10 * time.Second}
)

// Measure has fleets of Tenants and of StorageBuckets looked after, each on a control
// plane of its own. With an error it returns the figures that there are.
func Measure(ctx context.Context, b environment.Parameters) (figures.Section, error) {
	began := b.Clock.Now()
	z := full
	if b.Quick {
		z = quick
	}
	found, err := measure(ctx, b, z)
	section := found.section()
	section.Took = b.Clock.Since(began)
	if err != nil {
		section.Failure = err.Error()
	}
	return section, err
}

// findings are all that was measured.
type findings struct {
	shape       shape
	limited     *limited
	fleets      []fleet
	bucketFleet *bucketFleet
	// contention is nil where it was not measured, as the others are.
	contention *contention
}

// measure goes on with what does not depend on a part that has failed. StorageBuckets
// mostly wait, so where figures say nothing they do so beside the Tenants.
func measure(ctx context.Context, b environment.Parameters, z sizes) (findings, error) {
	var found findings
	var buckets, tenants error
	if b.Quick {
		var beside sync.WaitGroup
		beside.Go(func() { buckets = found.takeBuckets(ctx, b, z) })
		tenants = found.takeTenants(ctx, b, z)
		beside.Wait()
	} else {
		tenants = found.takeTenants(ctx, b, z)
		buckets = found.takeBuckets(ctx, b, z)
	}
	return found, errors.Join(tenants, buckets)
}

func (f *findings) takeBuckets(ctx context.Context, b environment.Parameters, z sizes) error {
	h, err := measureBuckets(ctx, b, z.buckets, z.period)
	if err != nil {
		return fmt.Errorf("measuring %d StorageBuckets: %w", z.buckets, err)
	}
	f.bucketFleet = &h
	return nil
}

func (f *findings) takeTenants(ctx context.Context, b environment.Parameters, z sizes) error {
	s, l, err := measureLimit(ctx, b, z.limited)
	if err != nil {
		// Without the shape there is nothing to compare with.
		return fmt.Errorf("measuring %d Tenants at the limits that ship: %w", z.limited, err)
	}
	f.shape, f.limited = s, &l
	var errs []error
	for _, n := range z.fleets {
		r, err := measureFleet(ctx, b, s, n)
		if err != nil {
			errs = append(errs, fmt.Errorf("measuring %d Tenants: %w", n, err))
			continue
		}
		f.fleets = append(f.fleets, r)
	}
	c, err := measureContention(ctx, b, z.edited, z.editing)
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("measuring conflicts with editors: %w", err))...)
	}
	f.contention = &c
	return errors.Join(errs...)
}
