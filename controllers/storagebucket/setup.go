// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

const firstBackoff = time.Second // after the first error of a bucket, as a retry may send a probe

// Options are the operator's flags for StorageBuckets.
type Options struct {
	// MaxConcurrentReconciles is the number of workers, and so of concurrent probes.
	MaxConcurrentReconciles int
	// AllowCIDRs may be dialled although the default rules forbid them. DenyCIDRs must not in any case.
	AllowCIDRs, DenyCIDRs []netip.Prefix
	// Ticks trigger the search for due probes. Without them only changed StorageBuckets are probed.
	Ticks <-chan event.GenericEvent
	// Guard wraps the transport of each S3 client, so that only the leader calls S3; nil guards nothing.
	Guard func(*http.Transport) http.RoundTripper
}

// WatchedObjects returns the kinds that the controller reads from the cache.
func WatchedObjects() []client.Object { return []client.Object{&v1beta1.StorageBucket{}} }

// CacheByObject bounds what the cache stores of a StorageBucket: the spec, whose size the CRD bounds, and
// the status.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&v1beta1.StorageBucket{}: {Transform: slim}}
}

func slim(in any) (any, error) {
	if b, ok := in.(*v1beta1.StorageBucket); ok {
		reconciler.Slim(b, v1beta1.StorageBucketFinalizer, metav1.FinalizerOrphanDependents)
		b.Labels, b.OwnerReferences = nil, nil
	}
	return in, nil
}

// New returns a Reconciler that uses the manager's client.
func New(mgr ctrl.Manager, o Options) (*Reconciler, error) {
	m, err := newMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("finding the address of the API server: %w", err)
	}
	return &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("leasehold-storagebucket"),
		Clock: clock.RealClock{}, Rules: s3.Rules{Allow: o.AllowCIDRs, Deny: o.DenyCIDRs, Guard: o.Guard},
		Cluster: func(ctx context.Context) ([]netip.Addr, error) { return s3.ClusterAddresses(ctx, server.Hostname()) },
		metrics: m,
	}, nil
}

// SetupWithManager adds the controller to the manager.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r, err := New(mgr, o)
	if err != nil {
		return err
	}
	options := controller.Options{MaxConcurrentReconciles: o.MaxConcurrentReconciles,
		RateLimiter: reconciler.RateLimiter(firstBackoff)}
	// A change of labels or of the status does not require a probe.
	b := ctrl.NewControllerManagedBy(mgr).Named("storagebucket").WithOptions(options).
		For(&v1beta1.StorageBucket{}, builder.WithPredicates(r.orphans(), reconciler.Changed))
	if o.Ticks != nil {
		b = b.WatchesRawSource(source.Channel(o.Ticks, handler.EnqueueRequestsFromMapFunc(r.due)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("adding storage bucket controller: %w", err)
	}
	return nil
}

// orphans remembers deletions with --cascade=orphan until the object is gone: the garbage collector removes
// their finalizer within milliseconds.
func (r *Reconciler) orphans() predicate.Predicate {
	remember := func(o client.Object) bool {
		if !o.GetDeletionTimestamp().IsZero() && controllerutil.ContainsFinalizer(o, metav1.FinalizerOrphanDependents) {
			r.probes.orphaned.Store(o.GetUID(), true)
		}
		return true
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return remember(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return remember(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool {
			r.probes.orphaned.Delete(e.Object.GetUID())
			return true
		},
	}
}

// due returns the buckets whose probe is due. A terminating one queues itself again.
func (r *Reconciler) due(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1beta1.StorageBucketList
	// The list is read only: deep copies of all StorageBuckets would cost more than the rest. A map
	// function must not wait for the cache, which the next tick reads.
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy,
		client.DisableReadYourWritesConsistency); err != nil {
		// The cache fails only while the manager stops.
		log.FromContext(ctx).Error(err, "listing storage buckets")
	}
	var requests []reconcile.Request
	now := r.Clock.Now()
	for i := range list.Items {
		b := &list.Items[i]
		if b.DeletionTimestamp.IsZero() && !reconciler.Paused(b) && r.probes.isDue(b, now) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		}
	}
	return requests
}

// metrics have what changes with every probe, as a status write for each would be too expensive.
type metrics struct {
	probes   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	up       *prometheus.GaugeVec
	retained *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	var m metrics
	var errs [4]error
	m.probes, errs[0] = reporting.RegisterMetric(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_storagebucket_probes_total",
		Help: "The number of probes of StorageBuckets, by result: a reason of the Ready condition.",
	}, []string{"result"}))
	m.duration, errs[1] = reporting.RegisterMetric(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "leasehold_storagebucket_probe_duration_seconds",
		Help:    "The duration of probes that sent a request, by result.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
	}, []string{"result"}))
	m.up, errs[2] = reporting.RegisterMetric(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_storagebucket_up",
		Help: "Whether the last probe of a StorageBucket succeeded (1) or not (0).",
	}, []string{"namespace", "name"}))
	m.retained, errs[3] = reporting.RegisterMetric(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_storagebucket_retained_buckets_total",
		Help: "The number of buckets that were kept although deletionPolicy is Delete, by cause: a reason of the " +
			"Ready condition.",
	}, []string{"reason"}))
	// increase() would not count a counter's first increment without the zero before it.
	for _, reason := range []string{v1beta1.ReasonBucketConflict, v1beta1.ReasonCredentialsNotFound,
		v1beta1.ReasonTLSVerificationFailed, v1beta1.ReasonTagsNotSupported} {
		m.retained.WithLabelValues(reason)
	}
	return &m, errors.Join(errs[:]...)
}

func (m *metrics) countProbe(b *v1beta1.StorageBucket, o observation, result s3.Verdict) {
	m.probes.WithLabelValues(result.Reason).Inc()
	if o.took > 0 {
		m.duration.WithLabelValues(o.verdict.Reason).Observe(o.took.Seconds())
	}
	m.up.WithLabelValues(b.Namespace, b.Name).Set(map[bool]float64{true: 1}[result.OK()])
}
