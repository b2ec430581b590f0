package storagebucket

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// ending is the result of an attempt to remove a managed bucket.
type ending struct {
	// parked is true if the request got no slot at the endpoint.
	parked bool
	// waiting is the reason why the bucket cannot be removed yet; nil after the removal.
	waiting *s3.Verdict
	// lost is true if waiting reports a Secret or ConfigMap that does not exist.
	lost bool
	// removed are events about a removed bucket. They are recorded even if the rest fails.
	removed []reporting.PendingEvent
	// events are recorded after the finalizer is removed.
	events []reporting.PendingEvent
	// kept is the reason why the bucket is retained although deletionPolicy is Delete.
	kept string
}

// finish removes the finalizer of a terminating StorageBucket after its bucket was removed
// or retained.
func (r *Reconciler) finish(ctx context.Context, b *v1beta1.StorageBucket) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer) {
		return ctrl.Result{}, nil
	}
	ns, err := r.terminating(ctx, b)
	if err != nil {
		return ctrl.Result{}, err
	}
	end, err := r.end(ctx, b)
	if err != nil {
		return ctrl.Result{}, err
	}
	end = ns.settle(end, b, r.Clock.Now())
	again := ctrl.Result{RequeueAfter: min(removalPeriod, period(b))}
	if end.parked {
		return again, nil
	}
	ns.emit(r.Recorder, b, end.removed)
	before := b.DeepCopy()
	if end.waiting == nil {
		controllerutil.RemoveFinalizer(b, v1beta1.StorageBucketFinalizer)
		if err := r.own.Patch(ctx, r.Client, b, before); err != nil {
			return ctrl.Result{}, fmt.Errorf("removing finalizer: %w", err)
		}
		if end.kept != "" {
			r.metrics.retained.WithLabelValues(end.kept).Inc()
		}
		ns.emit(r.Recorder, b, end.events)
		return ctrl.Result{}, nil
	}
	r.metrics.up.WithLabelValues(b.Namespace, b.Name).Set(0)
	setReady(&b.Status, b.Generation, r.Clock.Now(), metav1.Condition{
		Status: metav1.ConditionFalse, Reason: end.waiting.Reason,
		Message: "waiting to remove the bucket: " + end.waiting.Message +
			"; or set spec.deletionPolicy to Retain, which keeps the bucket" + ns.note(),
	})
	b.Status.ObservedGeneration = b.Generation
	if needsWrite(before.Status, b.Status) {
		if err := r.own.PatchStatus(ctx, r.Client, b, before); err != nil {
			return ctrl.Result{}, fmt.Errorf("writing status: %w", err)
		}
	}
	// In a terminating namespace events go to the namespace default, which gets only the
	// final one.
	if ns.namespace == nil {
		reporting.Flush(r.Recorder, b, transitions(before.Status, b.Status))
	}
	return again, nil
}

// end removes the bucket if the policy is Delete. It sends no request to the endpoint under
// Retain, or if no creation was ever declared.
func (r *Reconciler) end(ctx context.Context, b *v1beta1.StorageBucket) (ending, error) {
	switch {
	case b.Status.Provisioning == "":
		return ending{}, nil
	case b.Spec.DeletionPolicy != v1beta1.BucketDelete:
		return ending{events: []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketRetained, "Release",
			"kept bucket %s, as spec.deletionPolicy is Retain", b.Spec.BucketName)}}, nil
	}
	if !r.limiter.Acquire(requestFor(b), b.Spec.Endpoint) {
		return ending{parked: true}, nil
	}
	defer r.limiter.Release(requestFor(b))
	way, err := r.connect(ctx, b)
	if err != nil {
		return ending{}, err
	}
	defer way.close()
	if way.client == nil {
		return ending{waiting: &way.verdict, lost: way.lost}, nil
	}
	within, cancel := context.WithTimeout(ctx, timeout(b))
	defer cancel()
	end := remove(within, b, way.client)
	return end, canceled(ctx)
}

// remove removes the bucket if its owner tag has the UID of this StorageBucket.
func remove(ctx context.Context, b *v1beta1.StorageBucket, c *s3.Client) ending {
	whoseIs, _, problem := whose(ctx, c, b)
	switch {
	case problem != nil && problem.Missing():
		return ending{}
	case problem != nil:
		return ending{waiting: problem}
	case whoseIs != ownerSelf:
		return ending{kept: v1beta1.ReasonBucketConflict,
			events: []reporting.PendingEvent{reporting.Warning(v1beta1.EventBucketRetained, "Release",
				"kept bucket %s: it does not have the tag %s with the UID of this StorageBucket", b.Spec.BucketName,
				v1beta1.BucketTagOwner)}}
	}
	if problem := s3.VerdictOf(c.Remove(ctx)); problem != nil {
		return ending{waiting: problem}
	}
	return ending{removed: []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketDeleted, "Delete",
		"removed bucket %s", b.Spec.BucketName)}}
}
