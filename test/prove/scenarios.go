package main

import (
	"embed"
	"fmt"

	"leasehold.dev/test/harness/scenario"
)

//go:embed scenarios/*.yaml
var files embed.FS

// scenarios are all that there are, by name of file.
func scenarios() ([]scenario.Scenario, error) {
	entries, err := files.ReadDir("scenarios")
	if err != nil {
		return nil, fmt.Errorf("reading the scenarios: %w", err)
	}
	var all []scenario.Scenario
	for _, entry := range entries {
		text, err := files.ReadFile("scenarios/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading scenario %s: %w", entry.Name(), err)
		}
		s, err := scenario.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
		all = append(all, s)
	}
	return all, nil
}
