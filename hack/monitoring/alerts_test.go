// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// rule is an alert in the format of Prometheus' rule files.
type rule struct {
	Alert         string            `json:"alert"`
	Expr          string            `json:"expr"`
	For           string            `json:"for,omitempty"`
	KeepFiringFor string            `json:"keep_firing_for,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

type groups struct {
	Groups []group `json:"groups"`
}

// scenario is one promtool test of rules.
type scenario struct {
	Name        string
	InputSeries []struct{ Series string } `json:"input_series"`
	Alerts      []struct {
		Name   string `json:"alertname"`
		Expect []any  `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

// readRules returns the rules of the PrometheusRule.
func readRules(t *testing.T) groups {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "prometheus", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ Spec json.RawMessage }
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	var rules groups
	if err := yaml.UnmarshalStrict(object.Spec, &rules); err != nil {
		t.Fatalf("reading the rules: %v", err)
	}
	return rules
}

func alertsOf(g groups) []rule {
	var alerts []rule
	for _, group := range g.Groups {
		alerts = append(alerts, group.Rules...)
	}
	return alerts
}

func scenarioFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "alerts", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found no tests of alerts: %v", err)
	}
	return files
}

func scenarios(t *testing.T) []scenario {
	t.Helper()
	var all []scenario
	for _, file := range scenarioFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var content struct{ Tests []scenario }
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		all = append(all, content.Tests...)
	}
	return all
}

// promtool runs what `make bin/monitoring/promtool` builds.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join("..", "..", "bin", "monitoring", "promtool"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is not there: run `make bin/monitoring/promtool`", program)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlertsFireAndAreSilent(t *testing.T) {
	dir := t.TempDir()
	encoded, err := yaml.Marshal(readRules(t))
	if err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rules)
	for _, file := range scenarioFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// promtool resolves the name of the rule file relative to the test file.
			beside := filepath.Join(dir, filepath.Base(file))
			if err := os.WriteFile(beside, text, 0o600); err != nil {
				t.Fatal(err)
			}
			promtool(t, "test", "rules", beside)
		})
	}
}

// A case in which an alert is silent counts only if its input has the series of the alert.
func TestEachAlertHasACaseInWhichItFiresAndOneInWhichItIsSilent(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	alerts := alertsOf(readRules(t))
	for _, s := range scenarios(t) {
		for _, tested := range s.Alerts {
			at := slices.IndexFunc(alerts, func(r rule) bool { return r.Alert == tested.Name })
			switch {
			case at < 0:
				t.Errorf("%q tests %s, which is not an alert", s.Name, tested.Name)
			case len(tested.Expect) > 0:
				fires[tested.Name] = true
			case s.has(t, alerts[at].Expr):
				silent[tested.Name] = true
			default:
				t.Errorf("in %q %s has no series to judge, so it can never fire", s.Name, tested.Name)
			}
		}
	}
	for _, alert := range alerts {
		if !fires[alert.Alert] {
			t.Errorf("no test makes %s fire", alert.Alert)
		}
		if !silent[alert.Alert] {
			t.Errorf("no test shows %s silent", alert.Alert)
		}
	}
}

// has reports whether the scenario has a series that an expression selects.
func (s scenario) has(t *testing.T, expression string) bool {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Fatal(err)
	}
	for _, input := range s.InputSeries {
		given, err := parser.NewParser(parser.Options{}).ParseMetric(input.Series)
		if err != nil {
			t.Fatal(err)
		}
		for _, wanted := range selectors(parsed) {
			if given.Get(model.MetricNameLabel) == wanted.Name {
				return true
			}
		}
	}
	return false
}

func TestAlertsSelectExposedSeries(t *testing.T) {
	metrics := readExposed(t)
	for _, alert := range alertsOf(readRules(t)) {
		if err := metrics.check(alert.Expr); err != nil {
			t.Errorf("%s: %v", alert.Alert, err)
		}
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(alert.Expr)
		if err != nil {
			continue
		}
		for _, s := range selectors(parsed) {
			job := func(m *labels.Matcher) bool { return m.Name == "job" && m.Type == labels.MatchEqual }
			if !slices.ContainsFunc(s.LabelMatchers, job) {
				t.Errorf("%s selects %s of every job that has it: name the job", alert.Alert, s.Name)
			}
		}
	}
}

// Alerts must be tested with series that exist.
func TestAlertsAreTestedWithExposedSeries(t *testing.T) {
	metrics := readExposed(t)
	for _, s := range scenarios(t) {
		for _, input := range s.InputSeries {
			if err := metrics.check(input.Series); err != nil {
				t.Errorf("%q: %v", s.Name, err)
			}
		}
	}
}
