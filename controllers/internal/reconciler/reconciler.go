// Package reconciler implements the part of a reconcile that is the same for all kinds. It handles
// deleted objects, a cache that is older than the last own write, Conflicts, and denials because
// another replica leads. It also spreads the times at which objects are due.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/controllers/internal/denial"
	"leasehold.dev/controllers/internal/reporting"
)

const (
	// RetryAfterConflict is the delay after an object has changed during its reconcile. By then the
	// caches usually have the change.
	RetryAfterConflict = 200 * time.Millisecond
	// RetryWhenStale is the delay while the cache does not have this process's last write. It
	// usually arrives within a few milliseconds.
	RetryWhenStale = 50 * time.Millisecond
)

// NewQueue creates the work queue of a controller, given the controller's name. It has the type of
// controller.Options.NewQueue.
type NewQueue = func(controller string,
	limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]

var errStale = errors.New("the cache is stale")

// object is a pointer to a kind.
type object interface {
	client.Object
	comparable
}

// Reconcile reads the object with the key into `into`, which must be new, and calls reconcile with
// it, or gone if it does not exist. It reads from the cache, and after a Conflict from live.
// reconcile writes the object through state.
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
		// A Conflict is no failure: an object has changed after it was read, so the reconcile runs
		// again.
		state.suspectCache(key)
		return ctrl.Result{RequeueAfter: RetryAfterConflict}, nil
	case apierrors.IsNotFound(err):
		// The object was deleted during its reconcile.
		return ctrl.Result{}, nil
	}
	if err == nil {
		state.reconciled(key)
	}
	if err != nil {
		err = boundedError{err}
	}
	return result, err
}

// Finish returns to controller-runtime how a reconcile ended. A Conflict is no failure: an object has
// changed since it was read, so the reconcile runs again when the caches have the change. A denial by
// the fence stays an error, which the queue retries with backoff.
func Finish(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: RetryAfterConflict}, nil
	}
	return result, err
}

// boundedError is an error with a text of bounded length, which controller-runtime logs. An error of
// the API server may quote an object, such as each rule of a role.
type boundedError struct{ error }

func (e boundedError) Error() string { return reporting.Bounded(e.error.Error()) }

func (e boundedError) Unwrap() error { return e.error }

// VerifyUnchanged is called before an action that cannot be undone. It returns a Conflict unless
// the API server still has the object at the version of `judged`. It reads from live into `into`,
// which must be new.
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

// Get reads an object into `into`, which must be new. It returns nil without an error if the object
// does not exist.
func Get[T object](ctx context.Context, reader client.Reader, key client.ObjectKey, into T) (T, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		var none T
		return none, client.IgnoreNotFound(err)
	}
	return into, nil
}

// spread is the share of the period by which due times are spread.
const spread = 0.1

// NextDue returns when the object with the UID, last reconciled at the time last, is due again:
// after its period and up to a tenth of it. The offset depends only on the UID, so it needs no
// state, and objects that were created together are not due together.
func NextDue(last time.Time, period time.Duration, uid types.UID) time.Time {
	return last.Add(period + Offset(time.Duration(spread*float64(period)), uid))
}

// Offset returns the delay of the object with the UID, between zero and almost the window. The
// delays of many objects are evenly distributed.
func Offset(window time.Duration, uid types.UID) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails, by the contract of hash.Hash
	return time.Duration(float64(window) * float64(h.Sum32()) / float64(1<<32))
}
