package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"leasehold.dev/test/performance/figures"
)

// Goals.
const (
	// lazy is the share of the workers' time that the operator may take for itself.
	lazy = 0.3
	// heavy is how many bytes of heap a Tenant may take: 1.3 times what was measured when the goal
	// was set, 20 KiB.
	heavy = 26 << 10
	// prompt is how many milliseconds a warm standby may take to do something when it leads.
	prompt = 20
)

// sizes are how much is measured.
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
	fullSizes  = sizes{limited: 100, fleets: []int{1000, 250, 5000, 1000, 1000}, edited: 50, editing: 5 * time.Second}
	quickSizes = sizes{limited: 10, fleets: []int{20, 40}, edited: 5, editing: time.Second}
)

// scaleText describes how it was measured.
const scaleText = `Each Tenant has three namespaces and one admin. All of a fleet are there when the only replica
begins to lead, so that nothing but the operator writes while it is measured, with the limit of its client out of the
way. How long the API server takes for each write is in the audit log; the rest of the workers' time is the
operator's, and that of the network. kube-controller-manager runs next to nothing, or its answers to new namespaces
would be measured as well. The control plane and the operator share the cores. Memory is what the operator's own
garbage collection found in use.`

// measureScale has fleets of Tenants reconciled, each on a control plane of its own. It goes on with what
// does not depend on a part that has failed, and with an error it returns the figures that there are.
func measureScale(ctx context.Context, b bench) (figures.Section, error) {
	z := fullSizes
	if b.quick {
		z = quickSizes
	}
	s := figures.Section{Title: "Many Tenants", Text: scaleText}
	limited, err := measureLimit(ctx, b, z.limited)
	errs := []error{err}
	var each *figures.Goal
	if err == nil {
		each = figures.Exactly(limited.writesEach())
	}
	var fleets []fleet
	for _, n := range z.fleets {
		r, err := measureFleet(ctx, b, n)
		if errs = append(errs, err); err == nil {
			fleets = append(fleets, r)
		}
	}
	for _, same := range bySize(fleets) {
		s.Figures = append(s.Figures, fleetFigures(same, each)...)
	}
	if each != nil {
		s.Figures = append(s.Figures, figures.Figure{ID: "W4.limited", Unit: "s", Runs: []float64{limited.took.Seconds()},
			Title: fmt.Sprintf("from the first of %d creations to the last Ready, at the limits that ship", limited.n)})
	}
	if len(fleets) > 0 {
		s.Figures = append(s.Figures, figures.Figure{
			ID: "M1.heap", Title: "heap for each Tenant", Unit: "B", Runs: of(fleets, fleet.heapEach),
			Goal: figures.MedianAtMost(heavy),
			Note: "of a leader that found all Tenants made; what garbage collection found in use, less what it was without Tenants",
		})
	}
	c, err := measureContention(ctx, b, z.edited, z.editing)
	if err == nil {
		s.Figures = append(s.Figures, figures.Figure{
			ID: "W5", Title: "writes refused as Conflict or AlreadyExists, of 1000", Goal: figures.AtMost(1),
			Runs: []float64{1000 * float64(c.spent.conflicts) / float64(c.spent.writes)},
			Note: fmt.Sprintf("%d of %d writes, with events, while %d clients made %d changes", c.spent.conflicts, c.spent.writes,
				editors, c.edits),
		})
	}
	return s, errors.Join(append(errs, err)...)
}

// bySize are the fleets of each size, the smallest size first.
func bySize(fleets []fleet) [][]fleet {
	groups := map[int][]fleet{}
	for _, r := range fleets {
		groups[r.n] = append(groups[r.n], r)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b []fleet) int { return cmp.Compare(a[0].n, b[0].n) })
}

// of is a value of each of some results.
func of[T any](results []T, value func(T) float64) (values []float64) {
	for _, r := range results {
		values = append(values, value(r))
	}
	return values
}

// fleetFigures are those of fleets of one size. each is the goal for the writes of a Tenant.
func fleetFigures(same []fleet, each *figures.Goal) []figures.Figure {
	n := same[0].n
	list := []figures.Figure{
		{
			ID: "W4.idle.%d", Title: "share of the workers' time without a write at the API server, %d Tenants",
			Runs: of(same, fleet.idle), Goal: figures.MedianAtMost(lazy),
			Note: "what the operator adds to the time that the API server takes; one worker instead of four is at least 0.75",
		}, {
			ID: "W4.time.%d", Title: "from the election to the last of %d Tenants Ready", Unit: "s",
			Runs: of(same, func(r fleet) float64 { return r.took.Seconds() }),
		}, {
			ID: "F5.%d", Title: "from the election to the first write, %d Tenants in the caches", Unit: "ms",
			Runs: of(same, func(r fleet) float64 { return r.first.Seconds() * 1000 }), Goal: figures.MedianAtMost(prompt),
			Note: "from when the replica requests the Lease to when the API server receives the write",
		}, {
			ID: "W4.writes.%d", Title: "writes for each of %d Tenants, with events", Runs: of(same, fleet.writesEach),
			Goal: each, Note: "as many as at the limits that ship",
		}, {
			ID: "W4.reads.%d", Title: "live reads while %d Tenants were made", Goal: figures.Exactly(0),
			Runs: of(same, func(r fleet) float64 { return float64(r.spent.reads) }),
		}, {
			ID: "M1.resident.%d", Title: "resident memory, %d Tenants just made", Unit: "B",
			Runs: of(same, func(r fleet) float64 { return r.worked.resident }),
		},
	}
	for i := range list {
		list[i].ID, list[i].Title = fmt.Sprintf(list[i].ID, n), fmt.Sprintf(list[i].Title, n)
	}
	return list
}
