package markdownview

import (
	"github.com/prometheus/client_golang/prometheus"

	"leasehold.dev/controllers/internal/reporting"
)

// newAvailable creates and registers the gauge of this kind. Its name is public API.
func newAvailable(registry prometheus.Registerer) (*prometheus.GaugeVec, error) {
	return reporting.RegisterMetric(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_markdownview_available",
		Help: "Whether the page of a MarkdownView is served (1) or not (0).",
	}, []string{"namespace", "name"}))
}
