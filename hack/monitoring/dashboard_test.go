// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// dashboard is the part of Grafana's model that has queries for Prometheus. test/manifests tests the rest.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		Title, Description string
		Targets            []struct{ Expr string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "grafana", "leasehold.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// filled replaces variables by values, as Grafana does.
var filled = strings.NewReplacer("$__rate_interval", "5m", "$namespace", "leasehold-system", "$pod", "a|b")

func TestDashboardSelectsExposedSeries(t *testing.T) {
	metrics := readExposed(t)
	queries := 0
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			queries++
			expression := filled.Replace(target.Expr)
			if strings.Contains(expression, "$") {
				t.Errorf("%s: there is no such variable: %s", panel.Title, target.Expr)
			}
			if err := metrics.check(expression); err != nil {
				t.Errorf("%s: %v", panel.Title, err)
			}
			for _, part := range []string{`namespace="$namespace"`, `pod=~"$pod"`} {
				parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
				if err == nil && strings.Count(target.Expr, part) != len(selectors(parsed)) {
					t.Errorf("%s: not all of its selectors have %s: %s", panel.Title, part, target.Expr)
				}
			}
		}
	}
	if queries == 0 {
		t.Error("the dashboard has no query")
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`)

func TestDashboardVariablesSelectExposedSeries(t *testing.T) {
	metrics := readExposed(t)
	for _, variable := range readDashboard(t).Templating.List {
		if variable.Type == "datasource" {
			continue
		}
		parts := labelValues.FindStringSubmatch(variable.Definition)
		if parts == nil {
			t.Errorf("variable %s is not label_values(selector, label): %s", variable.Name, variable.Definition)
			continue
		}
		if err := metrics.check("count by (" + parts[2] + ") (" + filled.Replace(parts[1]) + ")"); err != nil {
			t.Errorf("variable %s: %v", variable.Name, err)
		}
	}
}

var alertName = regexp.MustCompile(`\bLeasehold[A-Z]\w+`)

// Each alert has a panel and a section in the docs. Each alert that these name exists.
func TestAlertsAreExplained(t *testing.T) {
	var names []string
	for _, alert := range alertsOf(readRules(t)) {
		names = append(names, alert.Alert)
	}
	var descriptions strings.Builder
	for _, panel := range readDashboard(t).Panels {
		descriptions.WriteString(panel.Description + "\n")
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for place, text := range map[string]string{"the dashboard": descriptions.String(),
		"docs/operations.md": string(readme)} {
		named := alertName.FindAllString(text, -1)
		for _, name := range names {
			if !slices.Contains(named, name) {
				t.Errorf("%s does not name %s", place, name)
			}
		}
		for _, name := range named {
			if !slices.Contains(names, name) {
				t.Errorf("%s names %s, which is not an alert", place, name)
			}
		}
	}
}
