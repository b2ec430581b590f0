// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newPage returns a command that prints a page of the documentation.
func newPage(use, short string, page []byte) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return printText(c, page) }}
}

func printText(c *cobra.Command, text []byte) error {
	if _, err := c.OutOrStdout().Write(text); err != nil {
		return fmt.Errorf("printing the text: %w", err)
	}
	return nil
}
