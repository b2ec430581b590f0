// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// newMetric registers the metric, whose name is public API. Controllers of one process share it.
func newMetric(registry prometheus.Registerer) *prometheus.GaugeVec {
	return reporting.RegisterMetric(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_markdownview_available",
		Help: "Whether the page of a MarkdownView is served (1) or not (0).",
	}, []string{"namespace", "name"}))
}

// measure sets the series of a view by its status.
func (r *Reconciler) measure(v *v1beta1.MarkdownView) {
	serves := meta.IsStatusConditionTrue(v.Status.Conditions, v1beta1.ConditionAvailable)
	r.available.WithLabelValues(v.Namespace, v.Name).Set(map[bool]float64{true: 1}[serves])
}

// forget ends the series of a deleted view.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.available.DeleteLabelValues(key.Namespace, key.Name)
}
