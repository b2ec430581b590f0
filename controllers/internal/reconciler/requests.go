// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1beta1"
)

// Paused reports whether an annotation suspends the object. Users write "True", "yes" or nothing at all,
// and an object that is not paused against their intention may lose data. So only "false" does not pause.
func Paused(o metav1.Object) bool {
	value, exists := o.GetAnnotations()[v1beta1.AnnotationPaused]
	return exists && value != "false"
}

// RequestedAt returns the value of the annotation that requests a reconcile, or the hash of one that is
// longer than the 128 characters that a status can repeat.
func RequestedAt(o metav1.Object) string {
	value := o.GetAnnotations()[v1beta1.AnnotationRequestedAt]
	if utf8.RuneCountInString(value) > 128 {
		return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(value)))
	}
	return value
}

// Changed accepts the events of an object that require a reconcile: its spec has changed, its deletion
// has begun, or an annotation pauses it, resumes it, or requests a reconcile.
var Changed = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return Paused(e.ObjectOld) != Paused(e.ObjectNew) || RequestedAt(e.ObjectOld) != RequestedAt(e.ObjectNew)
	},
})

// Requests returns a request for each listed object that is wanted, or for all if wanted is nil; wanted must change
// nothing. The list is not copied and does not wait for writes, which would block an informer. An error is logged,
// since a map function cannot return one: the cache fails only while the manager stops.
func Requests(ctx context.Context, reader client.Reader, list client.ObjectList, wanted func(client.Object) bool,
	opts ...client.ListOption) (requests []reconcile.Request) {
	opts = append(opts, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	err := errors.Join(reader.List(ctx, list, opts...), meta.EachListItem(list, func(item runtime.Object) error {
		if o := item.(client.Object); wanted == nil || wanted(o) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		}
		return nil
	}))
	if err != nil {
		log.FromContext(ctx).Error(err, "listing objects", "list", fmt.Sprintf("%T", list))
	}
	return requests
}

// Resync returns a handler for the ticks of --sync-period. It queues the objects with the priority that
// controller-runtime gives to resyncs, so changes do not wait for them.
func Resync(objects handler.MapFunc) handler.EventHandler {
	return handler.Funcs{GenericFunc: func(ctx context.Context, e event.GenericEvent,
		q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		q.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(
			priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, objects(ctx, e.Object)...)
	}}
}

const (
	// FirstRetry is the pause after the first failure of an object.
	FirstRetry = 5 * time.Millisecond
	// lastRetry is the longest pause, so a cause that was mended has an effect soon.
	lastRetry = time.Minute
)

// RateLimiter returns the limiter of a controller's queue. The pause of an object that fails is first at
// first, and doubles up to lastRetry.
func RateLimiter(first time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, lastRetry)
}
