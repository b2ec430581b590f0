package main

import (
	"context"
	"fmt"
	"net/http"
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
	"leasehold.dev/runners/server"
	"leasehold.dev/runners/version"
)

// debugPath is served beside the metrics. The ClusterRole debug-reader grants it.
const debugPath = "/debug/leasehold"

// buildInfo is the metric that names the build, in the form that Prometheus programs use.
func buildInfo(build version.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "leasehold_build_info",
		Help:        "1, with the version, the commit and the Go version that the operator was built from.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion},
	}, func() float64 { return 1 })
}

// checks returns the checks of /healthz and /readyz, each by its name.
func checks(mgr ctrl.Manager, o *options,
	progress *health.Progress) (live, ready map[string]healthz.Checker, err error) {
	ready = map[string]healthz.Checker{"caches": health.CachesSynced(mgr.GetCache(),
		slices.Concat(tenant.WatchedObjects(), storagebucket.WatchedObjects(), markdownview.WatchedObjects()))}
	admins := access.New(mgr.GetClient(), o.adminRight(), clock.RealClock{})
	if err := mgr.Add(admins); err != nil {
		return nil, nil, fmt.Errorf("adding the review of the right to bind the admins' role: %w", err)
	}
	ready["tenant-admin-role"] = admins.Check
	if o.enableWebhooks {
		// It fails until there is a certificate.
		ready["webhook"] = mgr.GetWebhookServer().StartedChecker()
	}
	return map[string]healthz.Checker{"ping": healthz.Ping, "workers": progress.Check}, ready, nil
}

// addServers adds the servers of the probes and of the metrics, unless a flag turns them off, with
// the page that shows the state behind the checks.
func addServers(ctx context.Context, mgr ctrl.Manager, o *options, progress *health.Progress) error {
	live, ready, err := checks(mgr, o, progress)
	if err != nil {
		return err
	}
	if o.probeAddress != "0" {
		if err := server.AddProbes(ctx, mgr, o.probeAddress, live, ready); err != nil {
			return err
		}
	}
	if o.metricsAddress == "0" {
		return nil
	}
	pages := map[string]http.Handler{}
	// Without the filter that authorizes requests the page would be open to all.
	if o.metricsSecure {
		pages[debugPath] = health.Page(o.podName, mgr.Elected(), progress)
	}
	return server.AddMetrics(ctx, mgr, o.metrics(), pages)
}
