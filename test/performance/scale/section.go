package scale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"leasehold.dev/test/harness/figures"
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

// text is what the reader has to know of how it was measured.
const text = `Each Tenant has three namespaces and one admin. All of a fleet are there when the only replica begins to
lead, so that nothing but the operator writes while it is measured, with the limit of its client out of the way. How
long the API server takes for each write is in the audit log; the rest of the workers' time is the operator's, and
that of the network. kube-controller-manager runs next to nothing, or its answers to new namespaces would be measured
as well. The control plane and the operator share the cores. Memory is what the operator's own garbage collection
found in use.`

func (f *findings) section() figures.Section {
	s := figures.Section{ID: "scale", Title: "Many Tenants", Text: text}
	s.Figures = slices.Concat(f.fleetFigures(), f.limitFigures(), f.memoryFigures(), f.contentionFigures())
	return s
}

// bySize are the fleets of each size, the smallest size first.
func (f *findings) bySize() [][]fleet {
	groups := map[int][]fleet{}
	for _, r := range f.fleets {
		groups[r.n] = append(groups[r.n], r)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b []fleet) int { return cmp.Compare(a[0].n, b[0].n) })
}

// of is a value of each of some fleets.
func of(fleets []fleet, value func(fleet) float64) []float64 {
	var values []float64
	for _, r := range fleets {
		values = append(values, value(r))
	}
	return values
}

func (f *findings) fleetFigures() []figures.Figure {
	var list []figures.Figure
	var each *figures.Goal
	if f.limited != nil {
		each = figures.Exactly(f.limited.writesEach())
	}
	for _, same := range f.bySize() {
		n := same[0].n
		id := func(what string) string { return fmt.Sprintf("W4.%s.%d", what, n) }
		list = append(list,
			figures.Figure{
				ID: id("idle"), Title: fmt.Sprintf("share of the workers' time without a write at the API server, %d Tenants", n),
				Runs: of(same, fleet.idle), Goal: figures.MedianAtMost(lazy),
				Note: "what the operator adds to the time that the API server takes; one worker instead of four is at least 0.75",
			},
			figures.Figure{
				ID: id("time"), Title: fmt.Sprintf("from the election to the last of %d Tenants Ready", n), Unit: "s",
				Runs: of(same, func(r fleet) float64 { return r.took.Seconds() }),
			},
			figures.Figure{
				ID: fmt.Sprintf("F5.%d", n), Title: fmt.Sprintf("from the election to the first write, %d Tenants in the caches",
					n), Unit: "ms",
				Runs: of(same, func(r fleet) float64 { return r.first.Seconds() * 1000 }), Goal: figures.MedianAtMost(prompt),
				Note: "from when the replica asks for the Lease to when the API server receives the write",
			},
			figures.Figure{
				ID: id("writes"), Title: fmt.Sprintf("writes for each of %d Tenants, with events", n),
				Runs: of(same, fleet.writesEach), Goal: each, Note: "as many as at the limits that ship",
			},
			figures.Figure{
				ID: id("reads"), Title: fmt.Sprintf("live reads while %d Tenants were made", n),
				Runs: of(same, func(r fleet) float64 { return float64(r.spent.reads) }), Goal: figures.Exactly(0),
			},
		)
	}
	return list
}

// limitFigures are of Tenants that users create while the operator leads.
func (f *findings) limitFigures() []figures.Figure {
	if f.limited == nil {
		return nil
	}
	return []figures.Figure{{
		ID: "W4.limited", Title: fmt.Sprintf("from the first of %d creations to the last Ready, at the limits that ship",
			f.limited.n), Unit: "s",
		Runs: []float64{f.limited.took.Seconds()},
	}}
}

func (f *findings) memoryFigures() []figures.Figure {
	if len(f.fleets) == 0 {
		return nil
	}
	list := []figures.Figure{{
		ID: "M1.heap", Title: "heap for each Tenant", Unit: "B", Runs: of(f.fleets, fleet.heapEach),
		Goal: figures.MedianAtMost(heavy),
		Note: "of a leader that found all Tenants made; what garbage collection found in use, less what it was without Tenants",
	}}
	for _, same := range f.bySize() {
		list = append(list, figures.Figure{
			ID:    fmt.Sprintf("M1.resident.%d", same[0].n),
			Title: fmt.Sprintf("resident memory, %d Tenants just made", same[0].n), Unit: "B",
			Runs: of(same, func(r fleet) float64 { return r.worked.resident }),
		})
	}
	return list
}
