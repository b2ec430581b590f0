// Package pass is the frame of a pass over one object, which is the same in every
// room: what to do when the object is gone, when the cache is behind our own
// writes, when somebody else was faster, and when somebody else leads.
package pass

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

	"leasehold.dev/controllers/internal/fence"
	"leasehold.dev/controllers/internal/lookup"
)

const (
	// LookAgain is how soon an object is looked at again when something changed
	// under the controller's hands; the caches have caught up by then.
	LookAgain = 200 * time.Millisecond
	// CatchUp is how soon an object is looked at again when the cache does not
	// show our own last write to it yet; mostly that takes a few milliseconds.
	CatchUp = 50 * time.Millisecond
)

// NewQueue makes the work queue of a controller, given its name. It is what
// controller.Options take for it.
type NewQueue = func(controller string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]

var errStale = errors.New("the cache is stale")

// object is one of our kinds.
type object interface {
	client.Object
	comparable
}

// Over reads the object with that key into a new one, `into`, and makes one pass
// over it; past the cache, which is what live does, after a Conflict. gone is called
// when there is none. What the pass writes to the object goes through own.
func Over[T object](
	ctx context.Context, cache, live client.Reader, own *Memory, key client.ObjectKey, into T,
	gone func(), pass func(context.Context, T) (ctrl.Result, error),
) (ctrl.Result, error) {
	found, err := lookup.Get(ctx, own.Reader(key, cache, live), key, into)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the object: %w", err)
	}
	var none T
	if found == none {
		own.Forget(key)
		gone()
		return ctrl.Result{}, nil
	}
	if own.Behind(found) {
		return ctrl.Result{RequeueAfter: CatchUp}, nil
	}
	result, err := pass(ctx, found)
	if fence.Denied(err) {
		return own.denied(ctx, key, err), nil
	}
	own.admitted(key)
	switch {
	case apierrors.IsConflict(err):
		// Not a failure: what was judged has changed, so judge again.
		own.doubted(key)
		return ctrl.Result{RequeueAfter: LookAgain}, nil
	case apierrors.IsNotFound(err):
		// The object itself went away under our hands.
		return ctrl.Result{}, nil
	}
	if err == nil {
		own.passed(key)
	}
	return result, err
}

// Unchanged makes sure that an object still is as it was judged, before something
// is done for it that cannot be taken back. It is a Conflict if it is not. live
// reads past the cache, into a new one, `into`.
func Unchanged[T object](ctx context.Context, live client.Reader, judged, into T) error {
	now, err := lookup.Get(ctx, live, client.ObjectKeyFromObject(judged), into)
	if err != nil {
		return fmt.Errorf("reading the object: %w", err)
	}
	var none T
	if now == none || now.GetUID() != judged.GetUID() || now.GetResourceVersion() != judged.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, judged.GetName(), errStale)
	}
	return nil
}
