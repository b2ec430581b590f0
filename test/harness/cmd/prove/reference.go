package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
)

// newFaults returns the command that lists the faults.
func newFaults() *cobra.Command {
	return list("faults", "List the faults, with the mutant that each reveals, and bugs", func() []string {
		var all []string
		for _, f := range run.Families() {
			for _, form := range f.Forms() {
				all = append(all, form.Name, form.Sentence+shown("", f.Mutants[form.Name], ""))
			}
			all[len(all)-1] += shown(f.Bug, "", f.Finding) + "\n"
		}
		return all
	})
}

// newInvariants returns the command that lists the invariants.
func newInvariants() *cobra.Command {
	return list("invariants", "List the invariants, with what each would have shown", func() []string {
		var all []string
		for _, i := range invariant.All() {
			all = append(all, i.Name, i.Promise+shown(i.Bug, i.Mutant, "")+"\n")
		}
		return all
	})
}

// list returns a command that prints names, each followed by its text.
func list(use, short string, entries func() []string) *cobra.Command {
	const long = ". Bugs are those of other projects; mutants and findings are Leasehold's."
	run := func(c *cobra.Command, _ []string) error {
		all := entries()
		for i := 0; i < len(all); i += 2 {
			if _, err := fmt.Fprintf(c.OutOrStdout(), "%s\n    %s\n", all[i], all[i+1]); err != nil {
				return fmt.Errorf("printing the list: %w", err)
			}
		}
		return nil
	}
	return &cobra.Command{Use: use, Short: short, Long: short + long, Args: cobra.NoArgs, RunE: run}
}

// shown returns lines about what a fault or an invariant reveals.
func shown(bug, mutant, finding string) string {
	var out strings.Builder
	for _, line := range [][2]string{{"mutant", mutant}, {"bug", bug}, {"finding", finding}} {
		if line[1] != "" {
			fmt.Fprintf(&out, "\n  %s: %s", line[0], line[1])
		}
	}
	return out.String()
}
