// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// sizes are the amounts to measure.
type sizes struct {
	// limited is the number of Tenants created with the shipped rate limits.
	limited int
	// fleets are numbers of Tenants in the order of measurement. A repeated number is measured again.
	fleets []int
	// edited is the number of Tenants edited at a time, and editing the duration.
	edited  int
	editing time.Duration
}

var (
	fullSizes  = sizes{limited: 100, fleets: []int{1000, 250, 5000, 1000, 1000}, edited: 50, editing: 5 * time.Second}
	quickSizes = sizes{limited: 10, fleets: []int{20, 40}, edited: 5, editing: time.Second}
)

// scaleText describes the measurement.
//
//go:embed scale.md
var scaleText string

// measureScale measures the reconciliation of fleets of Tenants, each on its own control plane. After a failure it
// continues with the independent parts, and with an error it returns the figures so far.
func measureScale(ctx context.Context, b bench) (section, error) {
	z := fullSizes
	if b.quick {
		z = quickSizes
	}
	s := section{Title: "Many Tenants", Text: scaleText}
	made, edited, err := measureShipped(ctx, b, z)
	errs := []error{err}
	var each *goal
	runs := map[string][]float64{}
	if err == nil {
		each = &goal{Value: made.writesEach(), Exactly: true}
		runs["W4.limited"] = []float64{made.took.Seconds()}
		runs["W5"] = []float64{1000 * float64(edited.conflicts) / float64(edited.writes)}
		b.logf("%d of %d writes were refused while clients edited", edited.conflicts, edited.writes)
	}
	fleets := map[int][]fleet{} // by their size
	for _, n := range z.fleets {
		r, err := measureFleet(ctx, b, n)
		if errs = append(errs, err); err == nil {
			fleets[n] = append(fleets[n], r)
			runs["M1.heap"] = append(runs["M1.heap"], r.heapEach())
		}
	}
	for _, n := range slices.Sorted(maps.Keys(fleets)) {
		s.Figures = append(s.Figures, fleetFigures(fleets[n], each)...)
	}
	s.Figures = append(s.Figures, describe(z.limited, runs)...)
	return s, errors.Join(errs...)
}

// of returns a value of each result.
func of[T any](results []T, value func(T) float64) (values []float64) {
	for _, r := range results {
		values = append(values, value(r))
	}
	return values
}

// fleetFigures returns those of fleets of one size. each is the goal for the writes of a Tenant.
func fleetFigures(same []fleet, each *goal) []figure {
	n := same[0].n
	writes := fmt.Sprintf("W4.writes.%d", n)
	list := describe(n, map[string][]float64{
		writes:                           of(same, fleet.writesEach),
		fmt.Sprintf("W4.idle.%d", n):     of(same, fleet.idle),
		fmt.Sprintf("W4.time.%d", n):     of(same, func(r fleet) float64 { return r.took.Seconds() }),
		fmt.Sprintf("F5.%d", n):          of(same, func(r fleet) float64 { return r.first.Seconds() * 1000 }),
		fmt.Sprintf("W4.reads.%d", n):    of(same, func(r fleet) float64 { return float64(r.spent.reads) }),
		fmt.Sprintf("M1.resident.%d", n): of(same, func(r fleet) float64 { return r.worked.resident }),
	})
	for i := range list {
		if list[i].ID == writes {
			list[i].Goal = each
		}
	}
	return list
}
