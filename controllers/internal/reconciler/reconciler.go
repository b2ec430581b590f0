// SPDX-License-Identifier: Apache-2.0

// Package reconciler contains what the reconcilers of all kinds share: how they read an object, hold it by a
// finalizer, report and return, and what triggers them.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/failure"
	"leasehold.dev/controllers/internal/reporting"
)

// Base is what the Reconciler of each kind has.
type Base struct {
	// Client reads from the manager's cache, which has each object that this client wrote.
	Client client.Client
	// Live reads from the API server: what decides about an action that cannot be undone, and what is never cached.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
}

// NewBase returns a Base that uses the manager's clients, and records events as the controller of that name.
func NewBase(mgr ctrl.Manager, name string) Base {
	return Base{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder(name),
		Clock: clock.RealClock{}}
}

// Object is a pointer to a kind.
type Object interface {
	client.Object
	comparable
}

// Steps are what the Reconciler of a kind does with an object.
type Steps[T Object] struct {
	Forget    func(client.ObjectKey) // what is known of an object that is gone
	Pause     func(context.Context, T) error
	Reconcile func(context.Context, T) (ctrl.Result, error)
}

// Run is a reconcile: it reads the object into `into`, which must be new, and takes the step that applies.
func Run[T Object](
	ctx context.Context, reader client.Reader, req ctrl.Request, into T, steps Steps[T],
) (result ctrl.Result, err error) {
	o, err := Get(ctx, reader, req.NamespacedName, into)
	var none T
	switch {
	case err != nil:
		err = fmt.Errorf("reading the object: %w", err)
	case o == none:
		steps.Forget(req.NamespacedName)
	case Paused(o):
		err = steps.Pause(ctx, o)
	default:
		result, err = steps.Reconcile(ctx, o)
	}
	return Finish(result, err)
}

// Get reads an object into `into`, which must be new. It returns nil without an error if the object
// does not exist.
func Get[T Object](ctx context.Context, reader client.Reader, key client.ObjectKey, into T) (T, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		var none T
		return none, client.IgnoreNotFound(err)
	}
	return into, nil
}

// SameVersion reports whether nothing of an object has changed.
func SameVersion(judged, now client.Object) bool {
	return judged.GetResourceVersion() == now.GetResourceVersion()
}

// SameSpec reports whether an object has the same spec, and is neither being deleted nor paused. Its status and labels
// may differ.
func SameSpec(judged, now client.Object) bool {
	return judged.GetGeneration() == now.GetGeneration() && now.GetDeletionTimestamp().IsZero() && !Paused(now)
}

// Verify is called before an action that an old object must not cause. It reads the object `judged`, on which the
// decision is based, from the API server into `into`, which must be new. It returns a Conflict unless both are the
// same.
func Verify[T Object](
	ctx context.Context, live client.Reader, judged, into T, same func(_, _ client.Object) bool,
) error {
	now, err := Get(ctx, live, client.ObjectKeyFromObject(judged), into)
	if err != nil {
		return fmt.Errorf("reading the object: %w", err)
	}
	var none T
	if now == none || now.GetUID() != judged.GetUID() || !same(judged, now) {
		return apierrors.NewConflict(schema.GroupResource{}, judged.GetName(), errors.New("the cache is stale"))
	}
	return nil
}

// AddFinalizer adds the finalizer to an object that has not got it and is not being deleted. A merge patch replaces
// the whole list, so o must have all finalizers.
func (b *Base) AddFinalizer(ctx context.Context, o client.Object, finalizer string) error {
	before := o.DeepCopyObject().(client.Object)
	if !o.GetDeletionTimestamp().IsZero() || !controllerutil.AddFinalizer(o, finalizer) {
		return nil
	}
	if err := apply.Patch(ctx, b.Client, o, before); err != nil {
		return fmt.Errorf("adding finalizer: %w", err)
	}
	return nil
}

// RemoveFinalizer removes the finalizer from an object. An object that is gone is a success.
func (b *Base) RemoveFinalizer(ctx context.Context, o client.Object, finalizer string) error {
	before := o.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(o, finalizer)
	if err := client.IgnoreNotFound(apply.Patch(ctx, b.Client, o, before)); err != nil {
		return fmt.Errorf("removing finalizer: %w", err)
	}
	return nil
}

// RetryAfterConflict is the delay after an object has changed during its reconcile. By then the
// caches usually have the change.
const RetryAfterConflict = 200 * time.Millisecond

// Finish returns to controller-runtime how a reconcile ended. A Conflict is no failure: an object has
// changed since it was read, so the reconcile runs again when the caches have the change. A denial by
// the fence stays an error, which the queue retries with backoff.
func Finish(result ctrl.Result, err error) (ctrl.Result, error) {
	if failure.Of(err) == failure.Changed {
		return ctrl.Result{RequeueAfter: RetryAfterConflict}, nil
	}
	if err != nil {
		return ctrl.Result{}, boundedError{err}
	}
	return result, nil
}

// boundedError is an error with a text of bounded length, which controller-runtime logs. An error of
// the API server may quote an object, such as each rule of a role.
type boundedError struct{ error }

func (e boundedError) Error() string { return reporting.Bounded(e.error.Error()) }

func (e boundedError) Unwrap() error { return e.error }
