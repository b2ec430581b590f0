// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/controllers/internal/reporting"
)

// newMetric registers the metric, whose name is public API. Controllers of one process share it.
func newMetric(registry prometheus.Registerer) *prometheus.GaugeVec {
	return reporting.RegisterMetric(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_markdownview_available",
		Help: "Whether the page of a MarkdownView is served (1) or not (0).",
	}, []string{"namespace", "name"}))
}

// forget ends the series of a deleted view.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.available.DeleteLabelValues(key.Namespace, key.Name)
}
