// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/util/sets"

	"leasehold.dev/test/harness/record"
)

// Family is a metric as the operator exposes it. hack/monitoring tests alerts and the dashboard
// against a list of them.
type Family struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Labels []string `json:"labels,omitempty"`
	// Values has the values of the labels that the operator chooses.
	Values map[string][]string `json:"values,omitempty"`
}

// Families reads the metrics that the replicas expose together, ordered by name: only one of them
// leads, and each webhook call reaches one.
func (s *Suite) Families(ctx context.Context) []Family {
	GinkgoHelper()
	series := map[string]*dto.MetricFamily{}
	for _, replica := range s.Replicas() {
		parsed, err := record.ReadMetrics(ctx, http.DefaultClient, metricsURL(replica))
		Expect(err).NotTo(HaveOccurred())
		for name, family := range parsed {
			if series[name] == nil {
				series[name] = &dto.MetricFamily{Type: family.Type}
			}
			series[name].Metric = append(series[name].Metric, family.Metric...)
		}
	}
	var families []Family
	for _, name := range slices.Sorted(maps.Keys(series)) {
		if !ofTheRuntime(name) {
			families = append(families, familyOf(name, series[name]))
		}
	}
	return families
}

// ofTheRuntime reports whether the metric depends on the version of Go.
func ofTheRuntime(name string) bool {
	return strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "go_memstats_") &&
		!slices.Contains([]string{"go_gc_gomemlimit_bytes", "go_goroutines", "go_threads"}, name)
}

func familyOf(name string, parsed *dto.MetricFamily) Family {
	labels, values := sets.New[string](), map[string]sets.Set[string]{}
	for _, series := range parsed.GetMetric() {
		for _, label := range series.GetLabel() {
			labels.Insert(label.GetName())
			if !ours(name, label.GetName()) {
				continue
			}
			if values[label.GetName()] == nil {
				values[label.GetName()] = sets.New[string]()
			}
			values[label.GetName()].Insert(label.GetValue())
		}
	}
	family := Family{Name: name, Type: strings.ToLower(parsed.GetType().String()), Labels: sets.List(labels)}
	for label, found := range values {
		if family.Values == nil {
			family.Values = map[string][]string{}
		}
		family.Values[label] = sets.List(found)
	}
	return family
}

// ours reports whether the operator chooses the values of a label.
func ours(metric, label string) bool {
	switch label {
	case "controller", "kind", "ready", "webhook":
		return true
	case "name": // of a queue or of the election; in our own metrics of an object
		return !strings.HasPrefix(metric, "leasehold_")
	}
	return false
}

// Within reports whether f equals other, except that other may have more values.
func (f Family) Within(other Family) bool {
	if f.Name != other.Name || f.Type != other.Type || !slices.Equal(f.Labels, other.Labels) {
		return false
	}
	for label, values := range f.Values {
		if !sets.New(other.Values[label]...).HasAll(values...) {
			return false
		}
	}
	return true
}
