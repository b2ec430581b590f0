package tenant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"gotest.tools/v3/golden"
)

// series returns the metrics of the controller.
func (w *world) series() string {
	w.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.r.metrics.added, w.r.metrics.removed, w.r.metrics.namespaces)
	families, err := registry.Gather()
	w.must(err)
	var text strings.Builder
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		w.must(err)
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// TestReconcileGolden records the operator's live reads, writes and events until the
// Tenant is reconciled.
func TestReconcileGolden(t *testing.T) {
	var got strings.Builder
	all := scenarios()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := newRecording(t, all[name])
		r.settle()
		fmt.Fprintf(&got, "== %s\n%s\n%s\n", name, strings.Join(r.lines, "\n"), r.series())
	}
	golden.Assert(t, got.String(), "reconcile.txt")
}
