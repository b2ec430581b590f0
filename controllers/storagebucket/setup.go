// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/storagebucket/s3"
)

const firstBackoff = time.Second // after the first error of a bucket, as a retry may send a probe

// Options are the operator's flags for StorageBuckets.
type Options struct {
	// MaxConcurrentReconciles is the number of workers, and so of concurrent probes.
	MaxConcurrentReconciles int
	// AllowCIDRs may be dialled although the default rules forbid them. DenyCIDRs must not in any case.
	AllowCIDRs, DenyCIDRs []netip.Prefix
	// Ticks trigger the search for due probes. It is not nil.
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
	server, _, err := rest.DefaultServerUrlFor(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("finding the address of the API server: %w", err)
	}
	return &Reconciler{
		Base: reconciler.NewBase(mgr, "leasehold-storagebucket"), metrics: newMetrics(ctrlmetrics.Registry),
		Rules:   s3.Rules{Allow: o.AllowCIDRs, Deny: o.DenyCIDRs, Guard: o.Guard},
		Cluster: func(ctx context.Context) ([]netip.Addr, error) { return s3.ClusterAddresses(ctx, server.Hostname()) },
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
	return ctrl.NewControllerManagedBy(mgr).Named("storagebucket").WithOptions(options).
		For(&v1beta1.StorageBucket{}, builder.WithPredicates(r.orphans(), reconciler.Changed)).
		WatchesRawSource(source.Channel(o.Ticks, handler.EnqueueRequestsFromMapFunc(r.due))).
		Complete(r)
}
