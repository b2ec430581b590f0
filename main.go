// SPDX-License-Identifier: Apache-2.0

// Command manager is the operator: it reads the flags, builds the manager, and adds the controllers
// and runners.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	// The image has no certificates. The manager verifies those of S3 services with these roots.
	_ "golang.org/x/crypto/x509roots/fallback"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
	"leasehold.dev/runners"
	"leasehold.dev/runners/election"
	"leasehold.dev/runners/servingcert"
	"leasehold.dev/runners/version"
)

// memoryShare of the container's memory limit is used before garbage is collected more eagerly. It is
// less than what the alert LeaseholdMemory warns of.
const memoryShare = 0.8

func main() {
	o, err := parseOptions(os.Args[1:], os.Getenv)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "manager: %v\n", err)
		os.Exit(1)
	}
	build := version.Get()
	if o.showVersion {
		fmt.Fprintln(os.Stdout, build.Line("manager"))
		os.Exit(0)
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.zap)))
	logger := ctrl.Log.WithName("main")
	logger.Info("starting", "version", build.Version, "revision", build.Revision, "goversion", build.GoVersion)
	if limit, err := memlimit.Set(memlimit.WithRatio(memoryShare)); err != nil || limit == math.MaxInt64 {
		logger.Info("no memory limit found for the garbage collector; set a memory limit on the container", "reason", err)
	}

	o.election.Lost = func(reason string) {
		logger.Error(errors.New("leader election lost: "+reason), "exiting")
		os.Exit(1)
	}
	// Nothing but the exit may follow: the Lease has been released, and code that still runs here
	// would run beside the next leader.
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		logger.Error(err, "exiting")
		os.Exit(1)
	}
	logger.Info("exiting after a termination signal")
}

// run builds the manager and everything in it, and runs it until ctx is done.
func run(ctx context.Context, o *options) error {
	// Latencies of requests to the API server and of the client's own rate limit.
	// controller-runtime does not register them by default.
	metrics.RegisterRESTClientMetrics(metrics.MetricRequestLatency, metrics.MetricRateLimiterLatency)
	if err := metrics.Registry.Register(buildInfo(version.Get())); err != nil {
		return fmt.Errorf("registering the metric leasehold_build_info: %w", err)
	}
	certificate, err := o.certificate()
	if err != nil {
		return err
	}
	mgr, term, err := newManager(o, certificate)
	if err != nil {
		return err
	}
	if err := errors.Join(addControllers(ctx, mgr, o, term), addWebhooks(mgr, o, certificate),
		addChecks(mgr, o), addFenceCheck(mgr, o)); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// addControllers adds the controllers and their tickers.
func addControllers(ctx context.Context, mgr ctrl.Manager, o *options, term *election.Term) error {
	// Each controller has a ticker of its own: a channel has one reader.
	ticks := func(interval time.Duration) <-chan event.GenericEvent {
		run, ticks := runners.Ticks(interval, clock.RealClock{})
		utilruntime.Must(mgr.Add(run)) // fails only for a manager that has stopped
		return ticks
	}
	o.tenants.Ticks, o.buckets.Ticks, o.views.Ticks = ticks(o.syncPeriod), ticks(o.probeTick), ticks(o.syncPeriod)
	o.buckets.Guard = term.GuardAll
	if err := errors.Join(tenant.SetupWithManager(ctx, mgr, o.tenants), storagebucket.SetupWithManager(mgr, o.buckets),
		markdownview.SetupWithManager(mgr, o.views)); err != nil {
		return fmt.Errorf("adding the controllers: %w", err)
	}
	return nil
}

// addWebhooks adds the webhooks and the source of their certificate.
func addWebhooks(mgr ctrl.Manager, o *options, certificate *servingcert.Source) error {
	if !o.enableWebhooks {
		return nil
	}
	if certificate != nil {
		if err := certificate.SetupWithManager(mgr); err != nil {
			return err
		}
		direct, err := client.New(mgr.GetConfig(),
			client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
		if err != nil {
			return fmt.Errorf("building the client of the certificate rotator: %w", err)
		}
		if err := servingcert.AddRotator(mgr, certificate, servingcert.RotatorOptions{
			Client:     direct,
			Service:    o.webhookPrefix + "webhook-service",
			Validating: o.webhookPrefix + "validating-webhook-configuration",
			Mutating:   o.webhookPrefix + "mutating-webhook-configuration",
		}); err != nil {
			return err
		}
	}
	if err := errors.Join(tenant.SetupWebhookWithManager(mgr, o.tenants),
		markdownview.SetupWebhookWithManager(mgr)); err != nil {
		return fmt.Errorf("adding the webhooks: %w", err)
	}
	return nil
}

// addFenceCheck adds the check of the fence, which judges the Lease's holders. The guard of the term is
// not in its client: the check sends its request while another replica leads.
func addFenceCheck(mgr ctrl.Manager, o *options) error {
	if !o.leaderElect {
		return nil
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the configuration of the Kubernetes client: %w", err)
	}
	direct, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("building the client of the fence check: %w", err)
	}
	f := &runners.FenceCheck{
		Client: direct, Lease: o.election.Lease, PodName: o.election.PodName,
		Recorder: mgr.GetEventRecorder("leasehold-fence"), Clock: clock.RealClock{},
	}
	return errors.Join(f.Register(metrics.Registry), mgr.Add(f))
}
