package scale

import (
	"context"
	"errors"
	"fmt"
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
}

var (
	full  = sizes{limited: 100, fleets: []int{1000, 250, 5000, 1000, 1000}, edited: 50, editing: 5 * time.Second}
	quick = sizes{limited: 10, fleets: []int{20, 40}, edited: 5, editing: time.Second}
)

// Measure has fleets of Tenants reconciled, each on a control plane of its own. With an error it
// returns the figures that there are.
func Measure(ctx context.Context, b environment.Parameters) (figures.Section, error) {
	z := full
	if b.Quick {
		z = quick
	}
	var found findings
	err := found.measure(ctx, b, z)
	return found.section(), err
}

// findings are all that was measured.
type findings struct {
	fleets []fleet
	// limited and contention are nil where they were not measured.
	limited    *fleet
	contention *contention
}

// measure goes on with what does not depend on a part that has failed.
func (f *findings) measure(ctx context.Context, b environment.Parameters, z sizes) error {
	var errs []error
	if l, err := measureLimit(ctx, b, z.limited); err != nil {
		errs = append(errs, fmt.Errorf("measuring %d Tenants at the limits that ship: %w", z.limited, err))
	} else {
		f.limited = &l
	}
	for _, n := range z.fleets {
		r, err := measureFleet(ctx, b, n)
		if err != nil {
			errs = append(errs, fmt.Errorf("measuring %d Tenants: %w", n, err))
			continue
		}
		f.fleets = append(f.fleets, r)
	}
	if c, err := measureContention(ctx, b, z.edited, z.editing); err != nil {
		errs = append(errs, fmt.Errorf("measuring conflicts with editors: %w", err))
	} else {
		f.contention = &c
	}
	return errors.Join(errs...)
}
