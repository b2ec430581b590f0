package storagebucket

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/lookup"
	"leasehold.dev/controllers/internal/notes"
	"leasehold.dev/controllers/storagebucket/s3"
)

// ending is how the leave of a managed bucket stands.
type ending struct {
	// aside: there is no place at the endpoint now.
	aside bool
	// waiting is why the bucket cannot be removed yet; nil when it is done with.
	waiting *s3.Verdict
	// removed tells that the bucket was removed, whatever becomes of the rest.
	removed []notes.Note
	// events are told once the StorageBucket was let go.
	events []notes.Note
}

// finish lets a StorageBucket go that is being deleted, once its bucket is
// removed or let go.
func (r *Reconciler) finish(ctx context.Context, b *v1beta1.StorageBucket) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer) {
		return ctrl.Result{}, nil
	}
	end, err := r.end(ctx, b)
	if err != nil {
		return ctrl.Result{}, err
	}
	again := ctrl.Result{RequeueAfter: min(removalPeriod, period(b))}
	if end.aside {
		return again, nil
	}
	notes.Emit(r.Recorder, b, end.removed)
	before := b.DeepCopy()
	if end.waiting == nil {
		controllerutil.RemoveFinalizer(b, v1beta1.StorageBucketFinalizer)
		if err := r.own.Patch(ctx, r.Client, b, before); err != nil {
			return ctrl.Result{}, fmt.Errorf("removing finalizer: %w", err)
		}
		notes.Emit(r.Recorder, b, end.events)
		return ctrl.Result{}, nil
	}
	r.metrics.up.WithLabelValues(b.Namespace, b.Name).Set(0)
	setReady(&b.Status, b.Generation, r.Clock.Now(), metav1.Condition{
		Status: metav1.ConditionFalse, Reason: end.waiting.Reason,
		Message: "waiting to remove the bucket: " + end.waiting.Message + "; set spec.deletionPolicy to Retain to let go of it",
	})
	b.Status.ObservedGeneration = b.Generation
	if worthWriting(before.Status, b.Status) {
		if err := r.own.PatchStatus(ctx, r.Client, b, before); err != nil {
			return ctrl.Result{}, fmt.Errorf("writing status: %w", err)
		}
	}
	notes.Emit(r.Recorder, b, transitions(before.Status, b.Status))
	return again, nil
}

// end removes the bucket if that is asked for, and says whether the
// StorageBucket may go. Nothing is asked of the endpoint under Retain, nor where
// no bucket was ever meant to be created.
func (r *Reconciler) end(ctx context.Context, b *v1beta1.StorageBucket) (ending, error) {
	switch {
	case b.Status.Provisioning == "":
		return ending{}, nil
	case b.Spec.DeletionPolicy != v1beta1.BucketDelete:
		return ending{events: []notes.Note{notes.Normal(v1beta1.EventBucketRetained, "Release", "kept bucket %s", b.Spec.BucketName)}}, nil
	}
	if !r.lanes.enter(b.Spec.Endpoint, requestFor(b)) {
		return ending{aside: true}, nil
	}
	asked, answered := false, false
	defer func() { r.lanes.leave(b.Spec.Endpoint, asked, answered) }()
	way, err := r.connect(ctx, b)
	if err != nil {
		return ending{}, err
	}
	defer way.close()
	if way.client == nil {
		// What went with the namespace cannot come back.
		lost, err := r.terminating(ctx, b.Namespace)
		if err != nil || !lost {
			return ending{waiting: &way.verdict}, err
		}
		return ending{events: []notes.Note{notes.Warning(v1beta1.EventBucketRetained, "Release",
			"kept bucket %s: what is needed to reach it is gone, and the namespace is being deleted", b.Spec.BucketName)}}, nil
	}
	within, cancel := context.WithTimeout(ctx, timeout(b))
	defer cancel()
	end := remove(within, b, way.client)
	asked, answered = true, end.waiting == nil || end.waiting.Reason != v1beta1.ReasonProbeTimeout
	return end, canceled(ctx)
}

// remove removes the bucket if it carries our mark.
func remove(ctx context.Context, b *v1beta1.StorageBucket, c *s3.Client) ending {
	whoseIs, problem := whose(ctx, c, b)
	switch {
	case problem != nil && problem.Missing():
		return ending{}
	case problem != nil:
		return ending{waiting: problem}
	case whoseIs != ownerSelf:
		return ending{events: []notes.Note{notes.Warning(v1beta1.EventBucketRetained, "Release",
			"kept bucket %s: it does not carry the mark of this StorageBucket", b.Spec.BucketName)}}
	}
	if problem := s3.VerdictOf(c.Remove(ctx)); problem != nil {
		return ending{waiting: problem}
	}
	return ending{removed: []notes.Note{notes.Normal(v1beta1.EventBucketDeleted, "Delete", "removed bucket %s", b.Spec.BucketName)}}
}

// terminating reports whether the namespace is on its way out, so that nothing
// can be created in it any more.
func (r *Reconciler) terminating(ctx context.Context, namespace string) (bool, error) {
	ns, err := lookup.Get(ctx, r.Client, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	return ns == nil || !ns.DeletionTimestamp.IsZero(), nil
}
