// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"time"

	"leasehold.dev/test/harness/invariant"
)

// writePhases writes the medians of the phases, of clean runs and of plans.
func (s *Sweep) writePhases(w io.Writer) error {
	header := []string{"median seconds"}
	var rows [][]string
	for _, of := range []struct {
		name string
		runs []invariant.Outcome
	}{{"clean runs", s.Clean}, {"plans", s.Outcomes}} {
		medians := medians(of.runs)
		if len(medians) == 0 {
			continue
		}
		row := []string{of.name}
		for _, p := range medians {
			row = append(row, fmt.Sprintf("%.1f", p.Took.Seconds()))
			if len(rows) == 0 {
				header = append(header, p.Name)
			}
		}
		rows = append(rows, row)
	}
	return table(w, header, rows)
}

// medians returns the median of each phase, and of the whole. It leaves out runs without phases.
func medians(runs []invariant.Outcome) []invariant.Phase {
	var order []string
	took := map[string][]time.Duration{}
	add := func(name string, d time.Duration) {
		if len(took[name]) == 0 {
			order = append(order, name)
		}
		took[name] = append(took[name], d)
	}
	for _, o := range runs {
		for _, p := range o.Phases {
			add(p.Name, p.Took)
		}
		if len(o.Phases) > 0 {
			add("all", o.Took)
		}
	}
	var all []invariant.Phase
	for _, name := range order {
		slices.Sort(took[name])
		all = append(all, invariant.Phase{Name: name, Took: took[name][len(took[name])/2]})
	}
	return all
}

// listReleases reports that the harness released the Lease in some runs.
func (s *Sweep) listReleases(w io.Writer) {
	n := 0
	for _, o := range s.Outcomes {
		if o.Releases > 0 {
			n++
		}
	}
	if n > 0 {
		fmt.Fprintf(w, "\nIn %d of %d runs the harness, not the operator, released the Lease of processes that a fault had killed (releaseLease). "+
			"They show nothing about takeovers of a Lease that expires.\n", n, len(s.Outcomes))
	}
}
