// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/subject"
)

// keep writes down what a mutant did in one plan, with its timeline.
func (h *hunt) keep(m mutant, id string, of *subject.Suite, o run.Judged) error {
	name := m.name
	if i := slices.Index(m.Plans, id); i > 0 {
		name = fmt.Sprintf("%s-%d", m.name, i+1)
	}
	ref := h.references[o.Scenario]
	kept := &report.Run{
		Outcome: o.Outcome, Seed: h.options.seed, Contract: of.Contract,
		History: o.History, References: ref.Histories, AuditLog: o.AuditLog,
	}
	kept.Name, kept.Invariants = name, ref.Scenario.Invariants
	kept.Words = fmt.Sprintf("nothing goes wrong, in an operator with a mistake: %s", m.Bug)
	kept.Replay = "make mutants MUTANTS='^" + m.name + "$'"
	if _, plan, err := planOf(id); err == nil && plan != nil {
		kept.Fault, kept.Plan = string(plan.Fault), id
		kept.Words = fmt.Sprintf("%s, in an operator with a mistake: %s", plan.Describe(), m.Bug)
	}
	_, err := kept.Save(h.options.dir)
	return err
}

// finish prints the table, writes it to a file, and returns an error unless all mutants were
// killed.
func (h *hunt) finish(wanted int) error {
	if err := table(h.output, h.rows); err != nil {
		return err
	}
	text, err := json.MarshalIndent(h.rows, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the table: %w", err)
	}
	if err := os.MkdirAll(h.options.dir, 0o750); err != nil {
		return fmt.Errorf("making the folder of the table: %w", err)
	}
	if err := os.WriteFile(filepath.Join(h.options.dir, "mutants.json"), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	tried, dead := map[string]bool{}, map[string]bool{}
	for _, r := range h.rows {
		dead[r.Mutant] = r.Result == killed && (dead[r.Mutant] || !tried[r.Mutant])
		tried[r.Mutant] = true
	}
	count := 0
	for _, is := range dead {
		if is {
			count++
		}
	}
	for _, flaw := range h.flaws {
		fmt.Fprintf(h.output, "the operator as it is does not hold: %s\n", flaw)
	}
	fmt.Fprintf(h.output, "%d mutants, %d killed\n", wanted, count)
	if count < wanted || len(h.flaws) > 0 {
		return errSurvived
	}
	return nil
}

// table shows what became of each mutant.
func table(output io.Writer, rows []row) error {
	w := tabwriter.NewWriter(output, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmutant\tclass\tplan\tnamed\tverdict\tall that broke\tresult\tseconds")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f\n", r.Mutant, r.Class, r.Plan, r.Named, r.Verdict,
			strings.Join(r.Fired, " "), r.Result, r.Took.Seconds())
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return nil
}
