// SPDX-License-Identifier: Apache-2.0

// Package reconciler contains what the reconcilers of all kinds share: how they read an object, how a
// reconcile returns, what triggers it, and how periodic reconciles are spread over time.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// RetryAfterConflict is the delay after an object has changed during its reconcile. By then the
// caches usually have the change.
const RetryAfterConflict = 200 * time.Millisecond

var errStale = errors.New("the cache is stale")

// object is a pointer to a kind.
type object interface {
	client.Object
	comparable
}

// Finish returns to controller-runtime how a reconcile ended. A Conflict is no failure: an object has
// changed since it was read, so the reconcile runs again when the caches have the change. A denial by
// the fence stays an error, which the queue retries with backoff.
func Finish(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: RetryAfterConflict}, nil
	}
	if err != nil {
		err = boundedError{err}
	}
	return result, err
}

// reportTimeout bounds a report after a reconcile has used up its time.
const reportTimeout = 10 * time.Second

// ReportContext returns the context of a status write. A reconcile that has used up its time still reports, but not one
// that is canceled because the operator stops.
func ReportContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
}

// Failed returns the error of a reconcile and that of its report, but no Conflict of the report: for
// Finish the whole would be no failure. The retry reports again.
func Failed(err, report error) error {
	if apierrors.IsConflict(report) {
		return err
	}
	return errors.Join(err, report)
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

// Slim drops from a cached object what users may fill and no reconcile reads: managed fields, other
// annotations than those of requests and of the content, and all finalizers but these. It may see an
// object twice: a reflector passes streamed objects again.
func Slim(o client.Object, finalizers ...string) {
	o.SetManagedFields(nil)
	o.SetAnnotations(Only(o.GetAnnotations(), v1beta1.AnnotationPaused, v1beta1.AnnotationRequestedAt,
		v1beta1.AnnotationContentHash))
	var kept []string
	for _, finalizer := range finalizers {
		if slices.Contains(o.GetFinalizers(), finalizer) {
			kept = append(kept, finalizer)
		}
	}
	o.SetFinalizers(kept)
}

// Only returns a new map with these keys of another, or nil. A map or a list from which entries are
// deleted would keep its size in memory.
func Only(all map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := all[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
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
