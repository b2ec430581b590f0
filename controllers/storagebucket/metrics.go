// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"github.com/prometheus/client_golang/prometheus"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// metrics have what changes with every probe, as a status write for each would be too expensive.
type metrics struct {
	probes   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	up       *prometheus.GaugeVec
	retained *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	var m metrics
	m.probes = reporting.RegisterMetric(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_storagebucket_probes_total",
		Help: "The number of probes of StorageBuckets, by result: a reason of the Ready condition.",
	}, []string{"result"}))
	m.duration = reporting.RegisterMetric(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "leasehold_storagebucket_probe_duration_seconds",
		Help:    "The duration of probes that sent a request, by result.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
	}, []string{"result"}))
	m.up = reporting.RegisterMetric(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_storagebucket_up",
		Help: "Whether the last probe of a StorageBucket succeeded (1) or not (0).",
	}, []string{"namespace", "name"}))
	m.retained = reporting.RegisterMetric(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_storagebucket_retained_buckets_total",
		Help: "The number of buckets that were kept although deletionPolicy is Delete, by cause: a reason of the " +
			"Ready condition.",
	}, []string{"reason"}))
	// increase() would not count a counter's first increment without the zero before it.
	for _, reason := range []string{v1beta1.ReasonBucketConflict, v1beta1.ReasonCredentialsNotFound,
		v1beta1.ReasonTLSVerificationFailed, v1beta1.ReasonTagsNotSupported} {
		m.retained.WithLabelValues(reason)
	}
	return &m
}

func (m *metrics) countProbe(b *v1beta1.StorageBucket, o *observation, result s3.Verdict) {
	m.probes.WithLabelValues(result.Reason).Inc()
	if o.took > 0 {
		m.duration.WithLabelValues(o.verdict.Reason).Observe(o.took.Seconds())
	}
	m.up.WithLabelValues(b.Namespace, b.Name).Set(map[bool]float64{true: 1}[result.OK()])
}
