// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the metrics that one process exposes, by name.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics reads the metrics that are served at a URL.
func ReadMetrics(ctx context.Context, c *http.Client, url string) (Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading metrics: %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	return families, nil
}

// Sum adds up a metric over all its labels. For a histogram it adds up the number of samples. It
// returns false if there is no such metric.
func (m Metrics) Sum(name string) (sum float64, found bool) {
	for _, series := range m[name].GetMetric() {
		found = true
		sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + series.GetUntyped().GetValue() +
			float64(series.GetHistogram().GetSampleCount())
	}
	return sum, found
}
