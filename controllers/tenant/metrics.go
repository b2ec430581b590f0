package tenant

import (
	"github.com/prometheus/client_golang/prometheus"

	"leasehold.dev/controllers/internal/reporting"
)

// metrics of this kind. Their names are an interface for dashboards and alerts.
type metrics struct {
	added, removed prometheus.Counter
	// The gauges have a series for each Tenant.
	namespaces, ready *prometheus.GaugeVec
}

// newMetrics registers the metrics. Controllers of one process share them.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		added: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "leasehold_tenant_added_namespaces_total",
			Help: "Namespaces created for Tenants.",
		}),
		removed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "leasehold_tenant_removed_namespaces_total",
			Help: "Namespaces deleted or let go because their Tenant dropped them or was deleted.",
		}),
		ready: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leasehold_tenant_ready",
			Help: "Whether a Tenant is Ready (1) or not (0).",
		}, []string{"tenant"}),
		namespaces: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leasehold_tenant_namespaces",
			Help: "Namespaces a Tenant owns.",
		}, []string{"tenant"}),
	}
	var err error
	if m.added, err = reporting.RegisterMetric(registry, m.added); err != nil {
		return nil, err
	}
	if m.removed, err = reporting.RegisterMetric(registry, m.removed); err != nil {
		return nil, err
	}
	if m.namespaces, err = reporting.RegisterMetric(registry, m.namespaces); err != nil {
		return nil, err
	}
	m.ready, err = reporting.RegisterMetric(registry, m.ready)
	return m, err
}

// forget ends the series of a deleted Tenant.
func (m *metrics) forget(tenant string) {
	m.namespaces.DeleteLabelValues(tenant)
	m.ready.DeleteLabelValues(tenant)
}
