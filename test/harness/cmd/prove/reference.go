// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"leasehold.dev/test/harness/schema"
)

// newPage returns a command that prints a page of the documentation.
func newPage(use, short string, page []byte) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return printText(c, page) }}
}

// schemas has the outputs of the command schema, by its argument.
var schemas = map[string][]byte{"subject": schema.Subject, "scenario": schema.Scenario}

// newSchema returns the command that prints a JSON Schema.
func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema subject|scenario",
		Short: "Print the JSON Schema of subject.yaml or of scenarios",
		Long: `schema prints a JSON Schema, with which editors complete and check the files of prove. The YAML
language server reads the schema that the first line of a file names:

  # yaml-language-server: $schema=subject.schema.json`,
		Example: `  prove schema subject > prove/subject.schema.json
  prove schema scenario > prove/scenario.schema.json`,
		ValidArgs: []string{"subject", "scenario"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE:      func(c *cobra.Command, args []string) error { return printText(c, schemas[args[0]]) },
	}
}

func printText(c *cobra.Command, text []byte) error {
	if _, err := c.OutOrStdout().Write(text); err != nil {
		return fmt.Errorf("printing the text: %w", err)
	}
	return nil
}
