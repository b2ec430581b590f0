package storagebucket

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// metrics of this kind. Their names are an interface for dashboards and alerts. Values that
// change with every probe are metrics, since a status write for each would be too expensive.
type metrics struct {
	probes   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	up       *prometheus.GaugeVec
	retained *prometheus.CounterVec
}

// retainReasons lists the reasons for which a bucket is retained although deletionPolicy
// is Delete.
var retainReasons = []string{
	v1beta1.ReasonBucketConflict, v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonTLSVerificationFailed,
	v1beta1.ReasonTagsNotSupported,
}

// newMetrics registers the metrics.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "leasehold_storagebucket_probes_total",
			Help: "Probes of StorageBuckets, by what they found: a reason of the Ready condition.",
		}, []string{"result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "leasehold_storagebucket_probe_duration_seconds",
			Help:    "How long probes took that sent something, by what they found.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}, []string{"result"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leasehold_storagebucket_up",
			Help: "1 if the last probe of a StorageBucket succeeded, else 0.",
		}, []string{"namespace", "name"}),
		retained: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "leasehold_storagebucket_retained_buckets_total",
			Help: "Buckets that were kept although deletionPolicy is Delete, by why: a reason of the Ready condition.",
		}, []string{"reason"}),
	}
	var errs [4]error
	m.probes, errs[0] = reporting.RegisterMetric(registry, m.probes)
	m.duration, errs[1] = reporting.RegisterMetric(registry, m.duration)
	m.up, errs[2] = reporting.RegisterMetric(registry, m.up)
	m.retained, errs[3] = reporting.RegisterMetric(registry, m.retained)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	// Each counter must exist with the value zero before its first increment, which
	// increase() would not count otherwise.
	for _, reason := range retainReasons {
		m.retained.WithLabelValues(reason)
	}
	return m, nil
}

// countProbe counts a probe by its result.
func (m *metrics) countProbe(b *v1beta1.StorageBucket, o observation, result s3.Verdict) {
	m.probes.WithLabelValues(result.Reason).Inc()
	if o.took > 0 {
		m.duration.WithLabelValues(o.verdict.Reason).Observe(o.took.Seconds())
	}
	up := 0.0
	if result.OK() {
		up = 1
	}
	m.up.WithLabelValues(b.Namespace, b.Name).Set(up)
}
