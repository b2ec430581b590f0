// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
)

// newFaults returns the command that lists the faults.
func newFaults() *cobra.Command {
	return list("faults", "List the faults, with what each has found, and bugs", func() []string {
		var all []string
		for _, f := range run.Families() {
			for _, form := range f.Forms() {
				all = append(all, form.Name, form.Sentence)
			}
			all[len(all)-1] += shown(f.Bug, f.Found)
		}
		return all
	})
}

// newInvariants returns the command that lists the invariants.
func newInvariants() *cobra.Command {
	return list("invariants", "List the invariants, with a bug that each would have shown", func() []string {
		var all []string
		for _, i := range invariant.All() {
			all = append(all, i.Name, i.Promise+shown(i.Bug, ""))
		}
		return all
	})
}

// list returns a command that prints names, each followed by its text.
func list(use, short string, entries func() []string) *cobra.Command {
	run := func(c *cobra.Command, _ []string) error {
		all := entries()
		for i := 0; i < len(all); i += 2 {
			if _, err := fmt.Fprintf(c.OutOrStdout(), "%s\n    %s\n", all[i], all[i+1]); err != nil {
				return fmt.Errorf("printing the list: %w", err)
			}
		}
		return nil
	}
	return &cobra.Command{Use: use, Short: short, Long: short + ". Bugs are those of other projects.", Args: cobra.NoArgs,
		RunE: run}
}

// shown returns lines about what a fault or an invariant reveals.
func shown(bug, found string) (lines string) {
	if bug != "" {
		lines += "\n  bug: " + bug
	}
	if found != "" {
		lines += "\n  found: " + found
	}
	return lines + "\n"
}
