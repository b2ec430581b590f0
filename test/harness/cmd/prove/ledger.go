// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
)

// ran is one run that is over: its plan, nil if nothing went wrong, and the clean
// runs that it was compared with.
type ran struct {
	reference *run.Reference
	plan      *run.Plan
	outcome   run.Judged
}

// ledger prints runs and keeps those that did not hold. Its methods are for one goroutine: parallel
// workers send it their runs.
type ledger struct {
	options  options
	promises invariant.Contract // that the runs are judged by
	output   io.Writer
	clock    clock.PassiveClock
	total    int // how many there will be
	sweep    report.Sweep
}

func newLedger(o options, promises invariant.Contract, output io.Writer) *ledger {
	return &ledger{options: o, promises: promises, output: output, clock: clock.RealClock{},
		sweep: report.Sweep{Seed: o.seed, Shard: o.shard.String(), Except: promises.Except}}
}

// expect sets the number of expected runs, and starts the clock for their rate.
func (l *ledger) expect(n int) { l.total, l.sweep.Began = n, l.clock.Now() }

// compared takes a clean run that others are compared with.
func (l *ledger) compared(r ran) error {
	n := 1
	for _, o := range l.sweep.Clean {
		if o.Scenario == r.outcome.Scenario {
			n++
		}
	}
	kept := l.report(r, fmt.Sprintf("%s-clean-%d", r.outcome.Scenario, n))
	l.sweep.Clean = append(l.sweep.Clean, kept.Outcome)
	fmt.Fprintf(l.output, "clean run %d: %s in %s%s\n", n, kept.Result, kept.Took.Round(time.Millisecond),
		again(kept.Outcome))
	return l.keep(kept)
}

// again counts the violations that an earlier clean run has reported, as a run with no others holds.
func again(o invariant.Outcome) string {
	n := 0
	for _, v := range o.Verdicts {
		n += len(v.Known)
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; violations that an earlier one has shown: %d", n)
}

// add takes a run of those that are expected.
func (l *ledger) add(r ran) error {
	n := len(l.sweep.Outcomes) + 1
	what := "clean run"
	if r.plan != nil {
		what = r.plan.ID()
	}
	kept := l.report(r, fmt.Sprintf("%03d-%s", n, folder(what)))
	l.sweep.Outcomes = append(l.sweep.Outcomes, kept.Outcome)
	l.sweep.Took = l.clock.Since(l.sweep.Began)
	each := l.sweep.Took / time.Duration(n)
	left := each * time.Duration(l.total-n)
	if l.options.budget > 0 {
		left = min(left, max(0, l.options.budget-l.sweep.Took))
	}
	rate, toGo := time.Hour.Seconds()/each.Seconds(), left.Round(time.Second)
	fmt.Fprintf(l.output, "plan %d of %d: %-12s %s (%.1f s; %.0f an hour, %s to go)\n", n, l.total, kept.Result, what,
		kept.Took.Seconds(), rate, toGo)
	return l.keep(kept)
}

// report is a run as the reports have it.
func (l *ledger) report(r ran, name string) *report.Run {
	o := r.outcome
	kept := &report.Run{
		Outcome: o.Outcome, Seed: l.options.seed, Contract: l.promises,
		History: o.History, References: r.reference.Histories, AuditLog: o.AuditLog,
		Logs: o.Logs,
	}
	kept.Name = name
	kept.Invariants = invariant.Necessary(o.History, r.reference.Scenario.Invariants)
	kept.Releases = len(o.History.Releases)
	kept.Findings = invariant.Findings(o.Verdicts)
	for _, key := range o.History.Leftovers {
		kept.Leftovers = append(kept.Leftovers, invariant.Names(o.History).Replace(key.String()))
	}
	slices.Sort(kept.Leftovers)
	kept.Leftovers = slices.Compact(kept.Leftovers) // several may have generated names
	if r.plan != nil {
		kept.Fault, kept.Plan, kept.Words = string(r.plan.Fault), r.plan.ID(), r.plan.Describe()
	}
	kept.Replay = l.options.replay(o.Scenario, kept.Plan)
	return kept
}

// keep prints a run that did not hold or was inconclusive, with the reason, and keeps it.
func (l *ledger) keep(r *report.Run) error {
	for _, v := range r.Verdicts {
		broken := v.Result == invariant.Broken && v.Excepted == ""
		if broken || r.Result == invariant.Inconclusive && v.Result == r.Result &&
			slices.Contains(r.Invariants, v.Invariant) {
			fmt.Fprintf(l.output, "%s\n", v)
		}
	}
	if r.Result != invariant.Held && r.Result != invariant.Inconclusive {
		for _, f := range r.Faults {
			fmt.Fprintf(l.output, "    fault: %s\n", f)
		}
	}
	if !r.Result.Passes() {
		fmt.Fprint(l.output, r.LogTails())
	}
	for _, note := range r.Notes() {
		fmt.Fprintf(l.output, "    %s\n", note)
	}
	if r.Result == invariant.Held && !l.options.keep {
		return nil
	}
	timeline, err := r.Save(l.options.dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(l.output, "    again: %s\n    timeline: %s\n", r.Replay, timeline)
	return nil
}

// longest is the maximum length of a folder's name; file systems allow 255 bytes.
const longest = 200

var unsafeInNames = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

// folder makes a name of a plan's ID that every file system takes.
func folder(name string) string {
	clean := strings.Trim(unsafeInNames.ReplaceAllString(name, "_"), "_")
	return clean[:min(longest, len(clean))]
}

// close prints the tables, writes the summary and reports whether every promise held.
func (l *ledger) close(base *report.Sweep) error {
	return conclude(&l.sweep, base, l.options.dir, l.output)
}

// conclude prints the tables of a sweep, writes its summary into dir, and reports whether every
// promise held. With a base, it compares the sweeps, and reports whether there are new findings, or runs that prove
// nothing.
func conclude(s, base *report.Sweep, dir string, output io.Writer) error {
	if err := s.WriteTable(output); err != nil {
		return err
	}
	if err := s.Save(dir); err != nil {
		return err
	}
	if base != nil {
		if err := s.SaveComparison(output, base, dir); err != nil {
			return err
		}
		if len(s.NewFindings(base)) > 0 || len(s.Unproven()) > 0 {
			return errFound
		}
		return nil
	}
	if !s.Held() {
		return errFound
	}
	return nil
}
