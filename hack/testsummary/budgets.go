package main

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed budgets.yaml
var budgetsFile []byte

// budgets are the maximal seconds by suite.
type budgets map[string]float64

func readBudgets(text []byte) (b budgets, err error) {
	if err := yaml.UnmarshalStrict(text, &b); err != nil {
		return nil, fmt.Errorf("reading budgets: %w", err)
	}
	if b["default"] <= 0 {
		return nil, fmt.Errorf("reading budgets: default is missing")
	}
	return b, nil
}

// exceeded returns the suites of a report that exceed their budgets.
func (b budgets) exceeded(suites []testSuite) (all []string) {
	for _, s := range suites {
		budget, ok := b[s.Name]
		if !ok {
			budget = b["default"]
		}
		if s.Seconds > budget {
			all = append(all, fmt.Sprintf("suite %s took %.0f s, its budget is %.0f s (hack/testsummary/budgets.yaml)", s.Name,
				s.Seconds, budget))
		}
	}
	return all
}
