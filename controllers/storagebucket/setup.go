package storagebucket

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/storagebucket/s3"
)

// firstBackoff is the pause after the first error of a bucket. A retry may send a probe.
const firstBackoff = time.Second

// Options are the operator's flags for StorageBuckets.
type Options struct {
	// MaxConcurrentReconciles is the number of workers, and so of concurrent probes.
	MaxConcurrentReconciles int
	// AllowCIDRs may be dialled although the default rules forbid them.
	AllowCIDRs []netip.Prefix
	// DenyCIDRs must not be dialled. They override AllowCIDRs.
	DenyCIDRs []netip.Prefix
	// Ticks trigger the search for due probes. Without them only new and changed
	// StorageBuckets are probed.
	Ticks <-chan event.GenericEvent
	// Guard wraps the transport of each S3 client, so that only the leader calls S3; nil
	// guards nothing.
	Guard func(*http.Transport) http.RoundTripper
	// Clock is nil for the real clock.
	Clock clock.PassiveClock
}

// WatchedObjects returns the kinds that the controller reads from the cache. It must not
// reconcile before their informers have synced.
func WatchedObjects() []client.Object { return []client.Object{&v1beta1.StorageBucket{}} }

// New returns a Reconciler that uses the manager's client.
func New(mgr ctrl.Manager, o Options) (*Reconciler, error) {
	m, err := newMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	server, _, err := rest.DefaultServerUrlFor(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("finding the address of the API server: %w", err)
	}
	return &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("leasehold-storagebucket"),
		Clock: o.Clock, Rules: s3.Rules{Allow: o.AllowCIDRs, Deny: o.DenyCIDRs, Guard: o.Guard},
		Cluster: func(ctx context.Context) ([]netip.Prefix, error) { return clusterAddresses(ctx, server.Hostname()) },
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
		For(&v1beta1.StorageBucket{}, builder.WithPredicates(reconciler.Changed))
	if o.Ticks != nil {
		b = b.WatchesRawSource(source.Channel(o.Ticks, handler.EnqueueRequestsFromMapFunc(r.due)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("adding storage bucket controller: %w", err)
	}
	return nil
}

// due returns the buckets whose probe is due. A terminating one queues itself again.
func (r *Reconciler) due(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1beta1.StorageBucketList
	// The list is read only. Deep copies of all StorageBuckets at each tick would cost more than the
	// rest of this function. A map function must not wait for the cache, which the next tick reads.
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy,
		client.DisableReadYourWritesConsistency); err != nil {
		// A map function cannot return an error. The cache fails only while the manager stops.
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

// clusterAddresses returns the addresses of the operator, and those of the API server by the host that
// the operator uses for it.
func clusterAddresses(ctx context.Context, host string) ([]netip.Prefix, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolving the API server: %w", err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing our own addresses: %w", err)
	}
	for _, address := range own {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			found = append(found, prefix.Addr())
		}
	}
	var list []netip.Prefix
	for _, a := range found {
		a = a.Unmap().WithZone("")
		list = append(list, netip.PrefixFrom(a, a.BitLen()))
	}
	return list, nil
}
