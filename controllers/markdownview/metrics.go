// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// metrics of this kind. Their names are public API.
type metrics struct {
	available *prometheus.GaugeVec
}

// newMetrics registers the metrics. Controllers of one process share them.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	available, err := reporting.RegisterMetric(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_markdownview_available",
		Help: "Whether the page of a MarkdownView is served (1) or not (0).",
	}, []string{"namespace", "name"}))
	return &metrics{available: available}, err
}

// set sets the series of a view by its status.
func (m *metrics) set(v *v1beta1.MarkdownView) {
	serves := 0.0
	if meta.IsStatusConditionTrue(v.Status.Conditions, v1beta1.ConditionAvailable) {
		serves = 1
	}
	m.available.WithLabelValues(v.Namespace, v.Name).Set(serves)
}

// forget ends the series of a deleted view.
func (m *metrics) forget(key types.NamespacedName) {
	m.available.DeleteLabelValues(key.Namespace, key.Name)
}
