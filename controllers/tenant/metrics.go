// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// metrics of this kind. Their names are an interface for dashboards and alerts.
type metrics struct {
	added, removed, repaired prometheus.Counter
	// The gauges have a series for each Tenant.
	namespaces, ready *prometheus.GaugeVec
}

// newMetrics registers the metrics. Controllers of one process share them.
func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return reporting.RegisterMetric(registry, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return reporting.RegisterMetric(registry,
			prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"tenant"}))
	}
	return &metrics{
		added: counter("leasehold_tenant_added_namespaces_total", "The number of namespaces created for Tenants."),
		removed: counter("leasehold_tenant_removed_namespaces_total",
			"The number of namespaces deleted or released because the Tenant no longer lists them or was deleted."),
		ready:      gauge("leasehold_tenant_ready", "Whether a Tenant is Ready (1) or not (0)."),
		namespaces: gauge("leasehold_tenant_namespaces", "The number of namespaces that a Tenant owns."),
		repaired: counter("leasehold_tenant_repaired_admin_bindings_total",
			"The number of RoleBindings of admins that the operator restored after another client had removed or "+
				"changed them."),
	}
}

// set sets the series of a Tenant by its status.
func (m *metrics) set(t *v1beta1.Tenant) {
	ready := meta.IsStatusConditionTrue(t.Status.Conditions, v1beta1.ConditionReady)
	m.ready.WithLabelValues(t.Name).Set(map[bool]float64{true: 1}[ready])
	m.namespaces.WithLabelValues(t.Name).Set(float64(len(ownedNames(t))))
}

// forget ends the series of a deleted Tenant.
func (m *metrics) forget(key types.NamespacedName) {
	m.namespaces.DeleteLabelValues(key.Name)
	m.ready.DeleteLabelValues(key.Name)
}
