package reporting

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Two controllers of one process share a metric. Two metrics with the same name and different
// labels are an error.
func TestRegisterMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	options := prometheus.CounterOpts{Name: "made_total", Help: "What was made."}
	first, err := RegisterMetric(registry, prometheus.NewCounter(options))
	if err != nil {
		t.Fatal(err)
	}
	again, err := RegisterMetric(registry, prometheus.NewCounter(options))
	if err != nil || again != first {
		t.Errorf("the same again: %v, the first is shared: %t", err, again == first)
	}
	again.Inc()
	if err := testutil.GatherAndCompare(registry,
		strings.NewReader("# HELP made_total What was made.\n# TYPE made_total counter\nmade_total 1\n")); err != nil {
		t.Error(err)
	}
	_, err = RegisterMetric(registry, prometheus.NewCounterVec(options, []string{"by"}))
	if err == nil || !strings.HasPrefix(err.Error(), "registering a metric: ") {
		t.Errorf("other labels under the same name: %v", err)
	}
}
