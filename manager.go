// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
	"leasehold.dev/runners"
	"leasehold.dev/runners/election"
	"leasehold.dev/runners/servingcert"
)

// reconcileTimeout ends a reconcile in which a call hangs. The alert LeaseholdWorkerStuck waits longer.
const reconcileTimeout = 150 * time.Second

// reviewLimits are the bytes that reviews may have, for each path that needs more than a Tenant. An update
// carries a MarkdownView twice, each time with up to the 1.5 MiB of etcd, and 200 KiB are for the rest of
// the review, such as the groups of the user.
var reviewLimits = map[string]int64{"/validate-leasehold-dev-v1beta1-markdownview": 3<<20 + 200<<10}

// newManager builds the manager without anything in it. The certificate is nil
// where the webhooks read theirs from files, or are off. The term is nil without leader
// election; a nil term guards nothing.
func newManager(o *options, certificate *servingcert.Source) (ctrl.Manager, *election.Term, error) {
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("loading the configuration of the Kubernetes client: %w", err)
	}
	restConfig.QPS, restConfig.Burst = float32(o.apiQPS), int(2*o.apiQPS)
	lock, err := election.NewLock(restConfig, o.election)
	if err != nil {
		return nil, nil, err
	}
	var term *election.Term
	if o.leaderElect {
		term = lock.Term()
	}
	// The lock has its own client, so renewals pass.
	restConfig.Wrap(term.GuardWrites)
	mgr, err := ctrl.NewManager(restConfig, managerOptions(o, lock, certificate))
	if err != nil {
		return nil, nil, fmt.Errorf("building the manager: %w", err)
	}
	lock.RecordWith(mgr.GetEventRecorder("leasehold-election"))
	return mgr, term, nil
}

// managerOptions returns the manager's options. Each line of the log names the replica as the Lease
// does, which shows which of two containers of a Pod wrote it.
func managerOptions(o *options, lock resourcelock.Interface, certificate *servingcert.Source) ctrl.Options {
	byObject := markdownview.CacheByObject() // what the cache keeps; each kind of object in one of the three
	maps.Copy(byObject, storagebucket.CacheByObject())
	maps.Copy(byObject, tenant.CacheByObject())
	logger := ctrl.Log.WithValues("replica", lock.Identity())
	webhooks := o.webhooks
	if certificate != nil {
		webhooks.TLSOpts = append(slices.Clone(http1), func(c *tls.Config) { c.GetCertificate = certificate.GetCertificate })
	}
	return ctrl.Options{
		Scheme: newScheme(),
		Cache:  cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: byObject},
		// A read waits until the cache has this replica's writes, so no reconcile repeats one.
		Client: client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},

		Metrics:                o.metrics,
		HealthProbeBindAddress: o.probeAddress,
		WebhookServer:          runners.BoundBodies(webhook.NewServer(webhooks), reviewLimits, clock.RealClock{}),

		LeaderElection:                      o.leaderElect,
		LeaderElectionID:                    o.election.Lease.Name,
		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       &o.leaseDuration,
		RenewDeadline:                       &o.election.RenewDeadline,
		RetryPeriod:                         &o.election.RetryPeriod,
		// Safe because the process exits right after Start returns; see main.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &o.shutdownTimeout,

		Controller: config.Controller{
			// A standby fills its caches and queues, so a takeover costs no more than an election.
			EnableWarmup:          new(true),
			RecoverPanic:          new(true),
			ReconciliationTimeout: reconcileTimeout,
		},

		Logger:      logger,
		BaseContext: func() context.Context { return log.IntoContext(context.Background(), logger) },
	}
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1beta1.AddToScheme(scheme))
	return scheme
}
