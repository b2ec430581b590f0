package storagebucket

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/storagebucket/s3"
)

// Options are the operator's flags for StorageBuckets.
type Options struct {
	// MaxConcurrentReconciles is the number of workers, and so of concurrent probes.
	MaxConcurrentReconciles int
	// AllowCIDRs may be dialled although the default rules forbid them.
	AllowCIDRs []netip.Prefix
	// DenyCIDRs must not be dialled. They override AllowCIDRs.
	DenyCIDRs []netip.Prefix
	// ServiceCIDRs are the cluster's Service ranges. If empty, they are listed from the API
	// server.
	ServiceCIDRs []netip.Prefix
	// RemovalGrace bounds the time for which buckets delay the deletion of a namespace.
	RemovalGrace time.Duration
	// Ticks trigger the search for due probes. Without them only new and changed
	// StorageBuckets are probed.
	Ticks <-chan event.GenericEvent
	// NewQueue creates the work queue; nil selects the default queue. The health check
	// observes the progress of the queue.
	NewQueue reconciler.NewQueue
	// Guard wraps the transport of each S3 client, so that only the leader calls S3; nil
	// guards nothing.
	Guard func(*http.Transport) http.RoundTripper
	// Clock is nil for the real clock.
	Clock clock.PassiveClock
}

// WatchedObjects returns the kinds that the controller reads from the cache. It must not
// reconcile before their informers have synced.
func WatchedObjects() []client.Object {
	return []client.Object{&v1beta1.StorageBucket{}, &corev1.Namespace{}}
}

// CacheByObject keeps the annotations in the cache that hand buckets over.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Namespace{}: {Transform: slimNamespace}}
}

// New returns a Reconciler that uses the manager's client.
func New(mgr ctrl.Manager, o Options) (*Reconciler, error) {
	m, err := newMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	cluster := &clusterCIDRs{
		live: mgr.GetAPIReader(), host: hostOf(mgr.GetConfig().Host), clock: o.Clock, services: o.ServiceCIDRs,
		rules: s3.Rules{Allow: o.AllowCIDRs, Deny: o.DenyCIDRs, Guard: o.Guard},
	}
	return &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("leasehold-storagebucket"),
		Clock: o.Clock, Rules: cluster.current, RemovalGrace: o.RemovalGrace, metrics: m,
		limiter: newEndpointLimiter(o.MaxConcurrentReconciles),
	}, nil
}

// SetupWithManager adds the controller to the manager.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r, err := New(mgr, o)
	if err != nil {
		return err
	}
	options := controller.Options{MaxConcurrentReconciles: o.MaxConcurrentReconciles, NewQueue: o.NewQueue}
	// A change of labels or of the status does not require a probe.
	b := ctrl.NewControllerManagedBy(mgr).Named("storagebucket").WithOptions(options).
		For(&v1beta1.StorageBucket{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.handedOver),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{}))
	b = b.WatchesRawSource(source.Func(func(_ context.Context,
		queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.limiter.wake = queue.Add
		return nil
	}))
	if o.Ticks != nil {
		b = b.WatchesRawSource(source.Channel(o.Ticks, handler.EnqueueRequestsFromMapFunc(r.due)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("adding storage bucket controller: %w", err)
	}
	return nil
}

// due returns the buckets whose probe is due. It omits new ones, whose create event has
// already queued their first reconcile.
func (r *Reconciler) due(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1beta1.StorageBucketList
	// The list is read only. Deep copies of all StorageBuckets at each tick would cost more
	// than the rest of this function.
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		// A map function cannot return an error. The cache fails only while the manager
		// stops.
		log.FromContext(ctx).Error(err, "listing storage buckets")
	}
	var requests []reconcile.Request
	now := r.Clock.Now()
	for i := range list.Items {
		b := &list.Items[i]
		at, met := r.states.when(b)
		if met && b.DeletionTimestamp.IsZero() && !at.After(now) && !r.limiter.Pending(requestFor(b)) {
			requests = append(requests, requestFor(b))
		}
	}
	return requests
}

func requestFor(b *v1beta1.StorageBucket) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)}
}
