// Command manager is the operator: it reads the flags, builds the manager, and adds the controllers
// and runners.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	uberzap "go.uber.org/zap"
	// The image has no certificates. The manager verifies those of S3 services with these roots.
	_ "golang.org/x/crypto/x509roots/fallback"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
	"leasehold.dev/runners"
	"leasehold.dev/runners/election"
	"leasehold.dev/runners/health"
	"leasehold.dev/runners/servingcert"
	"leasehold.dev/runners/version"
)

const (
	tickInterval      = 10 * time.Second
	inventoryInterval = 30 * time.Second
	// memoryShare of the container's memory limit is used before garbage is collected
	// more eagerly. It is less than what the alert LeaseholdMemory warns of.
	memoryShare = 0.8
)

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
	discardStandardLog()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.zap), zap.RawZapOpts(uberzap.WrapCore(boundErrors))))
	logger := ctrl.Log.WithName("main")
	logger.Info("starting", "version", build.Version, "revision", build.Revision, "goversion", build.GoVersion)
	if _, err := memlimit.Set(memlimit.WithRatio(memoryShare)); err != nil {
		logger.Info("found no memory limit for the garbage collector; set one on the container", "reason", err.Error())
	}

	o.lost = func(reason string) {
		logger.Error(errors.New("leader election lost: "+reason), "exiting")
		os.Exit(1)
	}
	// Nothing but the exit may follow: the Lease has been released, and code that still runs here
	// would run beside the next leader.
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		logger.Error(err, "exiting")
		os.Exit(1)
	}
	logger.Info("exiting: received a signal to stop")
}

// run builds the manager and everything in it, and runs it until ctx is done.
func run(ctx context.Context, o *options) error {
	// Latencies of requests to the API server and of the client's own rate limit.
	// controller-runtime does not register them by default.
	metrics.RegisterRESTClientMetrics(metrics.MetricRequestLatency, metrics.MetricRateLimiterLatency)
	if err := metrics.Registry.Register(buildInfo(version.Get())); err != nil {
		return fmt.Errorf("registering the build's metric: %w", err)
	}
	certificate, err := o.certificate()
	if err != nil {
		return err
	}
	leaving := o.leaving()
	mgr, term, err := newManager(o, certificate, leaving)
	if err != nil {
		return err
	}
	progress := o.progress()
	if err := addRunnables(ctx, mgr, o, term, progress); err != nil {
		return err
	}
	if err := errors.Join(addWebhooks(mgr, o, certificate), addServers(ctx, mgr, o, progress)); err != nil {
		return err
	}
	if err := mgr.Start(leaving.Context(ctx)); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// addRunnables adds the controllers and the runnables beside them.
func addRunnables(ctx context.Context, mgr ctrl.Manager, o *options, term *election.Term,
	progress *health.Progress) error {
	// Each controller has a ticker of its own: a channel has one reader.
	ticker := func(interval time.Duration) (<-chan event.GenericEvent, error) {
		run, ticks := runners.Ticks(interval, clock.RealClock{})
		if err := mgr.Add(run); err != nil {
			return nil, fmt.Errorf("adding a ticker: %w", err)
		}
		return ticks, nil
	}
	inventory, err := runners.NewInventory(metrics.Registry, mgr.GetClient(), inventoryInterval, clock.RealClock{},
		runners.CountByReady("Tenant",
			func() client.ObjectList { return &v1beta1.TenantList{} },
			func(t *v1beta1.Tenant) []metav1.Condition { return t.Status.Conditions }),
		runners.CountByReady("MarkdownView",
			func() client.ObjectList { return &v1beta1.MarkdownViewList{} },
			func(v *v1beta1.MarkdownView) []metav1.Condition { return v.Status.Conditions }),
		runners.CountByReady("StorageBucket",
			func() client.ObjectList { return &v1beta1.StorageBucketList{} },
			func(b *v1beta1.StorageBucket) []metav1.Condition { return b.Status.Conditions }),
	)
	if err != nil {
		return err
	}
	if err := mgr.Add(inventory); err != nil {
		return fmt.Errorf("adding the inventory: %w", err)
	}
	tenants := o.tenants()
	if tenants.Ticks, err = ticker(o.syncPeriod); err != nil {
		return err
	}
	if err := tenant.SetupWithManager(ctx, mgr, tenants); err != nil {
		return err
	}
	buckets := o.storageBuckets()
	buckets.NewQueue, buckets.Guard = progress.NewQueue, term.GuardAll
	if buckets.Ticks, err = ticker(o.probeTick); err != nil {
		return err
	}
	if err := storagebucket.SetupWithManager(mgr, buckets); err != nil {
		return err
	}
	views := o.markdownViews()
	views.NewQueue = progress.NewQueue
	if views.Ticks, err = ticker(ticksFor(o.viewSyncPeriod)); err != nil {
		return err
	}
	return markdownview.SetupWithManager(mgr, views)
}

// ticksFor returns the interval at which a controller looks for objects that are due. An object is
// due a period after its last reconcile, which follows a tick. A tenth of the period, rounded up,
// bounds how late the next tick is.
func ticksFor(period time.Duration) time.Duration { return min(tickInterval, (period+9)/10) }

// addWebhooks adds the webhooks and the source of their certificate.
func addWebhooks(mgr ctrl.Manager, o *options, certificate *servingcert.Source) error {
	if !o.enableWebhooks {
		return nil
	}
	if certificate != nil {
		if err := certificate.SetupWithManager(mgr); err != nil {
			return err
		}
		if err := servingcert.AddRotator(mgr, certificate, servingcert.RotatorOptions{
			Service:    o.webhookService,
			Validating: o.webhookPrefix + "validating-webhook-configuration",
			Mutating:   o.webhookPrefix + "mutating-webhook-configuration",
		}); err != nil {
			return err
		}
	}
	return errors.Join(
		tenant.SetupWebhookWithManager(mgr, o.tenants()),
		markdownview.SetupWebhookWithManager(mgr))
}
