// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// SweepFinding is one cause in the runs of a sweep.
type SweepFinding struct {
	invariant.Finding
	// Clean means that a clean run has it, so it needs no fault.
	Clean bool `json:"clean,omitempty"`
	// Again is the number of other runs with a violation of it that only the clean run reports.
	Again int `json:"again,omitempty"`
	// Runs are the runs that report it. The first is the one to repeat: the least can be said against its fault, and
	// then its command is the shortest.
	Runs []FindingRun `json:"runs"`
}

// FindingRun is a run that reports a finding.
type FindingRun struct {
	// Name is that of the run's folder. Plan is the plan's ID; "" for a clean run.
	Name   string `json:"name"`
	Plan   string `json:"plan,omitempty"`
	Replay string `json:"replay"`
	// Legal says why the fault of a stale start is legal; "" for other faults.
	Legal string `json:"legal,omitempty"`
}

// assumptions orders runs by what has to be legal for their fault: nothing, an old start, or an error before it.
func (r FindingRun) assumptions() int {
	switch {
	case r.Legal == "":
		return 0
	case strings.HasPrefix(r.Legal, history.NeedsNoError):
		return 1
	}
	return 2
}

// Findings groups the findings of all runs by their cause. Lost objects are first, then the findings of clean runs.
func (s *Sweep) Findings() []SweepFinding {
	var all []SweepFinding
	for i, o := range slices.Concat(s.Clean, s.Outcomes) {
		own := FindingRun{Name: o.Name, Plan: o.Plan, Replay: o.Replay}
		if len(o.Faults) > 0 {
			own.Legal = o.Faults[0].Legal
		}
		for _, f := range o.Findings {
			all = mergeFinding(all, SweepFinding{Finding: f, Clean: i < len(s.Clean), Runs: []FindingRun{own}})
		}
	}
	for i := range all {
		f := &all[i]
		slices.SortStableFunc(f.Runs, func(a, b FindingRun) int {
			return cmp.Or(cmp.Compare(a.assumptions(), b.assumptions()), cmp.Compare(len(a.Replay), len(b.Replay)),
				strings.Compare(a.Replay, b.Replay))
		})
		for _, o := range slices.Concat(s.Clean, s.Outcomes) {
			if f.isKnownIn(o) {
				f.Again++
			}
		}
	}
	slices.SortStableFunc(all, func(a, b SweepFinding) int {
		return cmp.Or(first(a.Lost(), b.Lost()), first(a.Clean, b.Clean), -cmp.Compare(len(a.Runs), len(b.Runs)))
	})
	return all
}

// mergeFinding adds a finding to those with the same cause, which it may turn into one.
func mergeFinding(all []SweepFinding, f SweepFinding) []SweepFinding {
	at := len(all)
	var others []SweepFinding
	for i, o := range all {
		if !o.SameCause(f.Finding) {
			others = append(others, o)
			continue
		}
		at = min(at, i)
		f.Clean = f.Clean || o.Clean
		f.Finding = invariant.NewFinding(slices.Concat(o.Violations, f.Violations))
		f.Runs = append(slices.Clone(o.Runs), slices.DeleteFunc(f.Runs, func(r FindingRun) bool {
			return slices.ContainsFunc(o.Runs, func(p FindingRun) bool { return p.Name == r.Name })
		})...)
	}
	return slices.Insert(others, min(at, len(others)), f)
}

// isKnownIn reports whether a run has a violation of the finding that a clean run reports.
func (f SweepFinding) isKnownIn(o invariant.Outcome) bool {
	return slices.ContainsFunc(o.Verdicts, func(v invariant.Verdict) bool {
		return slices.ContainsFunc(v.Known, func(known invariant.Violation) bool {
			return f.SameCause(invariant.NewFinding([]invariant.FoundViolation{{Invariant: v.Invariant, Violation: known}}))
		})
	})
}

// first orders what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// listFindings writes each finding with its violations and its runs.
func listFindings(w io.Writer, title string, all []SweepFinding) {
	for i, f := range all {
		if i == 0 {
			fmt.Fprintf(w, "\n%s:\n", title)
		}
		fmt.Fprintf(w, "\n%d. %s, in %s\n\n", i+1, f.Finding, f.where())
		for _, id := range f.Invariants {
			var of []invariant.Violation
			for _, v := range f.Violations {
				if v.Invariant == id {
					of = append(of, v.Violation)
				}
			}
			for _, v := range invariant.FirstOfEach(of) {
				fmt.Fprintf(w, "   - %s: %s\n", id, v.Message)
			}
		}
		fmt.Fprintf(w, "   - again: `%s`\n", f.Runs[0].Replay)
		for _, r := range f.Runs {
			fmt.Fprintf(w, "   - [%s](%s/%s)\n", cmp.Or(r.Plan, r.Name), r.Name, timelineFile)
			if r.Legal != "" {
				fmt.Fprintf(w, "     - This stale start %s; see \"Is this legal?\" in `prove faults`.\n", r.Legal)
			}
		}
	}
}

// where describes the runs of a finding.
func (f SweepFinding) where() string {
	plans := len(slices.DeleteFunc(slices.Clone(f.Runs), func(r FindingRun) bool { return r.Plan == "" }))
	var parts []string
	switch bare := len(f.Runs) - plans; {
	case f.Clean:
		parts = append(parts, "a clean run")
	case bare > 0:
		parts = append(parts, counted(bare, "run")+" without a fault")
	}
	if plans > 0 {
		parts = append(parts, counted(plans, "plan"))
	}
	where := strings.Join(parts, " and ")
	if f.Again > 0 {
		where += fmt.Sprintf("; also in %s, judged for everything else", counted(f.Again, "other run"))
	}
	return where
}

// listExceptions writes each excepted promise with its reason and its results.
func (s *Sweep) listExceptions(w io.Writer) {
	for i, e := range s.Except {
		if i == 0 {
			fmt.Fprint(w, "\nExceptions (evaluated but not counted):\n\n")
		}
		counts := map[invariant.Result]int{}
		for _, o := range slices.Concat(s.Clean, s.Outcomes) {
			for _, v := range o.Verdicts {
				if v.Invariant == e.Invariant {
					counts[v.Result]++
				}
			}
		}
		fmt.Fprintf(w, "- %s (%s): held in %d runs, broken in %d, inconclusive in %d\n", e.Invariant, e.Reason,
			counts[invariant.Held], counts[invariant.Broken], counts[invariant.Inconclusive])
	}
}
