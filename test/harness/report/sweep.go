// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"leasehold.dev/test/harness/invariant"
)

// Sweep is many runs.
type Sweep struct {
	Seed uint64 `json:"seed"`
	// Shard is the part of the plans that was run, such as 2/8; "" for all.
	Shard string `json:"shard,omitempty"`
	// Undone is the error that ended the sweep early; "" if it did all of its work.
	Undone string `json:"undone,omitempty"`
	// Began is when the first of Outcomes did, Took how long all of them took, which
	// is less than their sum if several ran at a time.
	Began time.Time     `json:"began"`
	Took  time.Duration `json:"took"`
	// Clean are the runs with which the others are compared.
	Clean    []invariant.Outcome `json:"clean"`
	Outcomes []invariant.Outcome `json:"outcomes"`
	// Left is the number of plans that a budget of time left out.
	Left int `json:"left,omitempty"`
	// Except are the invariants that the operator may break.
	Except []invariant.Exception `json:"except,omitempty"`
}

// summaryFile is the summary as JSON.
const summaryFile = "summary.json"

// Summary has the fields of summary.json beside the outcomes.
type Summary struct {
	Plans        int                      `json:"plans"`
	PlansPerHour float64                  `json:"plansPerHour"`
	Results      map[invariant.Result]int `json:"results"`
	Findings     []SweepFinding           `json:"findings,omitempty"`
}

// results are those that a run may have, in the order of the tables. NotApplicable is shown where
// there is one.
var results = []invariant.Result{invariant.Held, invariant.Broken, invariant.Inconclusive, invariant.Void}

// Summary counts.
func (s *Sweep) Summary() Summary {
	sum := Summary{Plans: len(s.Outcomes), Results: map[invariant.Result]int{}, Findings: s.Findings()}
	for _, o := range s.Outcomes {
		sum.Results[o.Result]++
	}
	if s.Took > 0 {
		sum.PlansPerHour = float64(sum.Plans) / s.Took.Hours()
	}
	return sum
}

// Held reports whether everything has, the clean runs too: what the others are
// compared with has to be sound.
func (s *Sweep) Held() bool {
	return !slices.ContainsFunc(slices.Concat(s.Clean, s.Outcomes), func(o invariant.Outcome) bool {
		return !o.Result.Passes()
	})
}

// Save writes summary.json, summary.md and junit.xml into dir.
func (s *Sweep) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the folder of the summary: %w", err)
	}
	if err := errors.Join(
		create(filepath.Join(dir, summaryFile), func(w io.Writer) error {
			return indented(w, struct {
				Summary
				*Sweep
			}{s.Summary(), s})
		}),
		create(filepath.Join(dir, "summary.md"), s.WriteTable),
		create(filepath.Join(dir, "junit.xml"), s.WriteJUnit),
	); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

// WriteTable writes what became of the plans, by what went wrong, and of the
// promises, and lists exceptions, findings, objects left behind and runs that prove nothing: Markdown
// that reads as well in a terminal.
func (s *Sweep) WriteTable(w io.Writer) error {
	plans, promises := map[string]map[invariant.Result]int{}, map[string]map[invariant.Result]int{}
	note := func(counts map[string]map[invariant.Result]int, name string, r invariant.Result) {
		if counts[name] == nil {
			counts[name] = map[invariant.Result]int{}
		}
		counts[name][r]++
	}
	for _, o := range s.Outcomes {
		note(plans, strings.TrimSpace(o.Scenario+" "+o.Fault), o.Result)
		for _, v := range o.Verdicts {
			note(promises, v.Invariant, v.Result)
		}
	}
	sum, columns := s.Summary(), results
	if sum.Results[invariant.NotApplicable] > 0 {
		columns = append(slices.Clone(results), invariant.NotApplicable)
	}
	if err := countTable(w, "plans", slices.Sorted(maps.Keys(plans)), plans, columns); err != nil {
		return err
	}
	var names []string
	for _, i := range invariant.All() {
		if _, judged := promises[i.Name]; judged {
			names = append(names, i.Name)
		}
	}
	if err := countTable(w, "invariants", names, promises, results[:3]); err != nil {
		return err
	}
	s.listReleases(w)
	s.listExceptions(w)
	listFindings(w, "Findings", sum.Findings)
	s.listLeftovers(w)
	s.listUnproven(w)
	var parts []string
	for _, r := range columns {
		parts = append(parts, fmt.Sprintf("%d %s", sum.Results[r], r))
	}
	_, err := fmt.Fprintf(w, "\n%s, %.0f an hour: %s; findings: %d%s\n", counted(sum.Plans, "plan"), sum.PlansPerHour,
		strings.Join(parts, ", "), len(sum.Findings), s.leftOut())
	return err
}

// leftOut continues a line with the plans that a budget left out.
func (s *Sweep) leftOut() string {
	if s.Left == 0 {
		return ""
	}
	return fmt.Sprintf(", %s left out by --budget", counted(s.Left, "plan"))
}

// Unproven returns the runs that prove nothing, the clean ones too.
func (s *Sweep) Unproven() []invariant.Outcome {
	return slices.DeleteFunc(slices.Concat(s.Clean, s.Outcomes), func(o invariant.Outcome) bool {
		return o.Result.Passes() || o.Result == invariant.Broken
	})
}

// listUnproven names the runs that prove nothing, with the invariants that cause that.
func (s *Sweep) listUnproven(w io.Writer) {
	for i, o := range s.Unproven() {
		if i == 0 {
			fmt.Fprint(w, "\nRuns that prove nothing:\n\n")
		}
		var because []string
		for _, v := range o.Verdicts {
			if v.Result == o.Result && v.Excepted == "" && slices.Contains(o.Invariants, v.Invariant) {
				because = append(because, v.Invariant)
			}
		}
		fmt.Fprintf(w, "- %s: [%s](%s/%s)\n", strings.TrimSpace(string(o.Result)+" "+strings.Join(because, " ")),
			cmp.Or(o.Plan, o.Name), o.Name, timelineFile)
	}
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

// listLeftovers names the objects that the operator left behind. That is no finding: an operator may keep an
// object on purpose.
func (s *Sweep) listLeftovers(w io.Writer) {
	clean, all := leftovers(s.Clean), leftovers(slices.Concat(s.Clean, s.Outcomes))
	for i, object := range slices.Sorted(maps.Keys(all)) {
		if i == 0 {
			fmt.Fprint(w, "\nLeft behind by the operator after the objects of the users were gone:\n\n")
		}
		fmt.Fprintf(w, "- %s: in %d of %d clean runs and in %d of %d other runs\n", object, clean[object], len(s.Clean),
			all[object]-clean[object], len(s.Outcomes))
	}
}

// leftovers counts the runs that left an object behind.
func leftovers(of []invariant.Outcome) map[string]int {
	runs := map[string]int{}
	for _, o := range of {
		for _, object := range o.Leftovers {
			runs[object]++
		}
	}
	return runs
}

// countTable writes how often each name has each result.
func countTable(w io.Writer, title string, names []string, counts map[string]map[invariant.Result]int,
	columns []invariant.Result) error {
	header := []string{title}
	for _, r := range columns {
		header = append(header, string(r))
	}
	var rows [][]string
	for _, name := range names {
		row := []string{name}
		for _, r := range columns {
			row = append(row, strconv.Itoa(counts[name][r]))
		}
		rows = append(rows, row)
	}
	return table(w, header, rows)
}

// table writes a table of Markdown whose columns are aligned, or nothing if it has no rows.
func table(w io.Writer, header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	aligned := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintf(aligned, "\n| %s\t|\n%s|\n", strings.Join(header, "\t| "), strings.Repeat("|---\t", len(header)))
	for _, row := range rows {
		fmt.Fprintf(aligned, "| %s\t|\n", strings.Join(row, "\t| "))
	}
	if err := aligned.Flush(); err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	return nil
}
