// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// targetLabels are the labels that Prometheus adds for a ServiceMonitor. It renames a metric's own
// label of the same name to exported_<name>.
var targetLabels = []string{"container", "endpoint", "instance", "job", "namespace", "pod", "service"}

// family is a metric that the operator exposes.
type family struct {
	Name   string
	Type   string
	Labels []string
	// Values has the labels with a closed set of values.
	Values map[string][]string
}

// series is a metric as Prometheus stores it. A histogram has three.
type series struct {
	counts bool // a counter: it only grows until the process restarts
	labels []string
	values map[string][]string
}

// exposed has all possible series by name.
type exposed map[string]series

// readExposed reads the list that test/integration/storagebucket compares with the shipped binary.
func readExposed(t *testing.T) exposed {
	t.Helper()
	var families []family
	read(t, filepath.Join("testdata", "metrics.golden.yaml"), &families)
	all := exposed{"up": {labels: targetLabels}}
	for _, f := range families {
		s := series{counts: f.Type != "gauge", labels: slices.Clone(targetLabels), values: map[string][]string{}}
		for _, label := range f.Labels {
			stored := label
			if slices.Contains(targetLabels, label) {
				stored = "exported_" + label
			}
			s.labels = append(s.labels, stored)
			if values, ok := f.Values[label]; ok {
				s.values[stored] = values
			}
		}
		if f.Type == "histogram" {
			all[f.Name+"_sum"], all[f.Name+"_count"] = s, s
			s.labels = append(slices.Clone(s.labels), "le")
			all[f.Name+"_bucket"] = s
			continue
		}
		all[f.Name] = s
	}
	return all
}

// read decodes a YAML file strictly.
func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
}

// check returns what an expression selects and the operator does not expose.
func (e exposed) check(expression string) error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return fmt.Errorf("parsing %q: %w", expression, err)
	}
	var errs []error
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			errs = append(errs, e.selects(n.Name, n.LabelMatchers))
		case *parser.AggregateExpr:
			errs = append(errs, e.have(n.Expr, n.Grouping, "grouped by"))
		case *parser.BinaryExpr:
			if n.VectorMatching != nil && n.VectorMatching.On {
				errs = append(errs,
					e.have(n.LHS, n.VectorMatching.MatchingLabels, "matched on"),
					e.have(n.RHS, n.VectorMatching.MatchingLabels, "matched on"))
			}
		case *parser.Call:
			errs = append(errs, e.suits(n))
		}
		return nil
	})
	return errors.Join(errs...)
}

// selects checks the name, the labels and the closed label values of a selector.
func (e exposed) selects(name string, matchers []*labels.Matcher) error {
	s, ok := e[name]
	if !ok {
		return fmt.Errorf("%q is not exposed", name)
	}
	var errs []error
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		if !slices.Contains(s.labels, m.Name) {
			errs = append(errs, fmt.Errorf("%s has no label %q", name, m.Name))
			continue
		}
		values, closed := s.values[m.Name]
		// "Not Tenant" is checked as "Tenant": without one, it excludes nothing.
		positive := m
		if m.Type == labels.MatchNotEqual || m.Type == labels.MatchNotRegexp {
			positive, _ = m.Inverse()
		}
		if closed && !slices.ContainsFunc(values, positive.Matches) {
			errs = append(errs, fmt.Errorf("%s is never exposed with %s %q", name, m.Name, m.Value))
		}
	}
	return errors.Join(errs...)
}

// have checks that all series within an expression have the labels by which it aggregates or matches.
func (e exposed) have(within parser.Expr, wanted []string, how string) error {
	var errs []error
	for _, s := range selectors(within) {
		for _, label := range wanted {
			if known, ok := e[s.Name]; ok && !slices.Contains(known.labels, label) {
				errs = append(errs, fmt.Errorf("%s is %s %q, which it does not have", s.Name, how, label))
			}
		}
	}
	return errors.Join(errs...)
}

// suits checks that functions for counters get counters.
func (e exposed) suits(call *parser.Call) error {
	if !slices.Contains([]string{"rate", "irate", "increase", "resets"}, call.Func.Name) {
		return nil
	}
	for _, s := range selectors(call) {
		if known, ok := e[s.Name]; ok && !known.counts {
			return fmt.Errorf("%s of %s, which is not a counter", call.Func.Name, s.Name)
		}
	}
	return nil
}

// selectors returns the selectors within a part of an expression.
func selectors(within parser.Node) []*parser.VectorSelector {
	var found []*parser.VectorSelector
	parser.Inspect(within, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			found = append(found, s)
		}
		return nil
	})
	return found
}

func TestMissingSeriesAreFound(t *testing.T) {
	metrics := readExposed(t)
	for expression, want := range map[string]string{
		`sum(rate(controller_runtime_reconcile_errors_total{controller="tenant", pod="a"}[5m])) by (controller, pod)`: "",
		`histogram_quantile(0.9, sum by (le, name) (rate(workqueue_queue_duration_seconds_bucket[5m])))`:              "",
		`max by (exported_namespace, name) (leasehold_storagebucket_up) == 0`:                                         "",
		`sum(up{job="x"}) < 2`: "",

		`sum(`:                                              "parsing",
		`leasehold_tenants`:                                 `"leasehold_tenants" is not exposed`,
		`go_goroutines{controller="a"}`:                     `no label "controller"`,
		`workqueue_depth{name="pod"}`:                       `never exposed with name "pod"`,
		`workqueue_depth{name=~"p.*"}`:                      `never exposed with name "p.*"`,
		`workqueue_depth{name!="pod"}`:                      `never exposed with name "pod"`,
		`leasehold_storagebucket_up{namespace="a", up="1"}`: `no label "up"`,
		`sum by (name, queue) (workqueue_depth)`:            `grouped by "queue"`,
		`go_goroutines and on (pod, name) leader_election_master_status == 1`: `go_goroutines is matched on "name"`,
		`workqueue_queue_duration_seconds`:                                    "is not exposed",
		`sum by (le) (rate(workqueue_queue_duration_seconds_count[5m]))`:      `grouped by "le"`,
		`rate(workqueue_depth[5m])`:                                           "not a counter",
	} {
		switch err := metrics.check(expression); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", expression, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: found %v, want %q", expression, err, want)
		}
	}
}
