// Package reconciler is the part of a reconcile that is the same for all kinds: what
// follows when the object is gone, when the cache is older than our own last write, when a
// write is refused as a Conflict, and when another replica leads. It also spreads the times
// at which objects come due.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/controllers/internal/denial"
)

const (
	// RetryAfterConflict is the delay after an object changed during its reconcile. The
	// caches have caught up by then.
	RetryAfterConflict = 200 * time.Millisecond
	// RetryWhenStale is the delay while the cache does not show our own last write. It
	// mostly does after a few milliseconds.
	RetryWhenStale = 50 * time.Millisecond
)

// NewQueue makes the work queue of a controller, given its name. It has the type of
// controller.Options.NewQueue.
type NewQueue = func(controller string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]

var errStale = errors.New("the cache is stale")

// object is a pointer to a kind.
type object interface {
	client.Object
	comparable
}

// Reconcile reads the object with that key into a new one, `into`, and calls reconcile with
// it, or gone when there is none. It reads from cache, and after a Conflict from live. The
// callback writes the object through state.
func Reconcile[T object](
	ctx context.Context, cache, live client.Reader, state *State, key client.ObjectKey, into T,
	gone func(), reconcile func(context.Context, T) (ctrl.Result, error),
) (ctrl.Result, error) {
	found, err := Get(ctx, state.Reader(key, cache, live), key, into)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the object: %w", err)
	}
	var none T
	if found == none {
		state.Forget(key)
		gone()
		return ctrl.Result{}, nil
	}
	if state.Stale(found) {
		return ctrl.Result{RequeueAfter: RetryWhenStale}, nil
	}
	result, err := reconcile(ctx, found)
	if denial.ByFence(err) {
		return state.denied(ctx, key, err), nil
	}
	state.admitted(key)
	switch {
	case apierrors.IsConflict(err):
		// A Conflict is not a failure: an object changed after it was read, so decide again.
		state.suspectCache(key)
		return ctrl.Result{RequeueAfter: RetryAfterConflict}, nil
	case apierrors.IsNotFound(err):
		// The object itself was deleted during its reconcile.
		return ctrl.Result{}, nil
	}
	if err == nil {
		state.reconciled(key)
	}
	return result, err
}

// VerifyUnchanged precedes an action that cannot be undone. It returns a Conflict unless the
// API server still has the object at the version that was judged. live reads past the cache,
// into a new one, `into`.
func VerifyUnchanged[T object](ctx context.Context, live client.Reader, judged, into T) error {
	now, err := Get(ctx, live, client.ObjectKeyFromObject(judged), into)
	if err != nil {
		return fmt.Errorf("reading the object: %w", err)
	}
	var none T
	if now == none || now.GetUID() != judged.GetUID() || now.GetResourceVersion() != judged.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, judged.GetName(), errStale)
	}
	return nil
}
