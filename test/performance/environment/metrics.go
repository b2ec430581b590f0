package environment

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"leasehold.dev/test/harness/env"
)

// Metrics are what a replica tells of itself, by the names of the metrics.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics asks a replica.
func ReadMetrics(ctx context.Context, r *env.Replica) (Metrics, error) {
	url := fmt.Sprintf("http://127.0.0.1:%d/metrics", r.Ports().Metrics)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking %s for its metrics: %w", r.Name(), err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking %s for its metrics: %w", r.Name(), err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking %s for its metrics: %s", r.Name(), response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", r.Name(), err)
	}
	return families, nil
}

// Sum adds up the series of a metric that have these labels, of counters, gauges
// and the counts of histograms. A metric that is not there is zero.
func (m Metrics) Sum(name string, labels map[string]string) float64 {
	var sum float64
	for _, series := range m[name].GetMetric() {
		if !has(series, labels) {
			continue
		}
		sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
	}
	return sum
}

func has(series *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, label := range series.GetLabel() {
		if want, asked := labels[label.GetName()]; asked && want == label.GetValue() {
			found++
		}
	}
	return found == len(labels)
}
