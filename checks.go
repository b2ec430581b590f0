// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
	"leasehold.dev/runners"
	"leasehold.dev/runners/version"
)

// buildInfo is the metric that names the build, in the form that Prometheus programs use.
func buildInfo(build version.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "leasehold_build_info",
		Help:        "Always 1, labeled with the version, the commit and the Go version of the operator.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion},
	}, func() float64 { return 1 })
}

// addChecks adds the checks of /healthz and /readyz. A replica is ready, whether it leads or not, when
// it could reconcile and when its webhooks answer.
func addChecks(mgr ctrl.Manager, o *options) error {
	watched := slices.Concat(tenant.WatchedObjects(), storagebucket.WatchedObjects(), markdownview.WatchedObjects())
	err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", runners.CachesSynced(mgr.GetCache(), watched)))
	if o.enableWebhooks {
		// It fails until there is a certificate.
		err = errors.Join(err, mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()))
	}
	return err
}
