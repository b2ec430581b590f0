package markdownview

import (
	"github.com/prometheus/client_golang/prometheus"

	"leasehold.dev/controllers/internal/metric"
)

// newAvailable makes and registers the gauge of this room. Its name is part of
// the product.
func newAvailable(registry prometheus.Registerer) (*prometheus.GaugeVec, error) {
	return metric.Register(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_markdownview_available",
		Help: "Whether the page of a MarkdownView is served (1) or not (0).",
	}, []string{"namespace", "name"}))
}
