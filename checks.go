package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
	"leasehold.dev/runners/access"
	"leasehold.dev/runners/health"
	"leasehold.dev/runners/version"
)

// debugPath is beside the metrics. The ClusterRole debug-reader grants it.
const debugPath = "/debug/leasehold"

// buildInfo is the metric that names the build, as other programs of the ecosystem have it.
func buildInfo(build version.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "leasehold_build_info",
		Help:        "1, with the version, the commit and the Go version that the operator was built from.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion},
	}, func() float64 { return 1 })
}

// addChecks registers the checks of /healthz and /readyz, each by its name, and the page
// that shows the state behind them.
func addChecks(mgr ctrl.Manager, o *options, progress *health.Progress) error {
	readyz := map[string]healthz.Checker{"caches": health.CachesSynced(mgr.GetCache(),
		slices.Concat(tenant.WatchedObjects(), storagebucket.WatchedObjects(), markdownview.WatchedObjects()))}
	admins := access.New(mgr.GetClient(), o.adminRight(), clock.RealClock{})
	if err := mgr.Add(admins); err != nil {
		return fmt.Errorf("adding the review of the right to bind the admins' role: %w", err)
	}
	readyz["tenant-admin-role"] = admins.Check
	if o.enableWebhooks {
		// A whole TLS handshake with ourselves: it fails until there is a certificate.
		readyz["webhook"] = mgr.GetWebhookServer().StartedChecker()
	}
	var errs []error
	for name, check := range readyz {
		errs = append(errs, mgr.AddReadyzCheck(name, check))
	}
	errs = append(errs,
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddHealthzCheck("workers", progress.Check))
	// Without the filter that authorizes requests the page would be open to all.
	if o.metricsSecure {
		errs = append(errs, mgr.AddMetricsServerExtraHandler(debugPath, health.Page(o.podName, mgr.Elected(), progress)))
	}
	return errors.Join(errs...)
}
