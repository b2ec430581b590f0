package storagebucket

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/denial"
	"leasehold.dev/controllers/internal/reporting"
)

// report writes the result of a probe if the status needs it, and records events. The probe counts
// once the result is written; after a failed write the queue retries with another probe.
func (r *Reconciler) report(ctx context.Context, b *v1beta1.StorageBucket, o observation, f findings) error {
	now := r.Clock.Now()
	r.metrics.countProbe(b, o, f.verdict)
	p := r.probes.of(b, now).after(b.Generation, o.lacking, f.verdict, now)
	if err := r.write(ctx, b, summarize(b, p, o.secretVersion, f, now), true); err != nil {
		return err
	}
	r.probes.store(b, p)
	return nil
}

// write writes a status if it differs from the stored one in more than counts. Then it records the
// events of the change, unless the namespace accepts none.
func (r *Reconciler) write(ctx context.Context, b *v1beta1.StorageBucket, status v1beta1.StorageBucketStatus,
	acceptsEvents bool) error {
	before := b.DeepCopy()
	if needsWrite(before.Status, status) {
		b.Status = status
		if err := apply.PatchStatus(ctx, r.Client, b, before); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	}
	if acceptsEvents {
		reporting.Flush(r.Recorder, b, transitions(before.Status, status))
	}
	return nil
}

// reportRemoval reports the end of a bucket, or why it cannot be removed yet. A StorageBucket in a
// terminating namespace waits as long.
func (r *Reconciler) reportRemoval(ctx context.Context, b *v1beta1.StorageBucket, o observation,
	f findings) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer) {
		if f.kept != "" {
			r.metrics.retained.WithLabelValues(f.kept).Inc()
		}
		r.emit(b, o.namespace, f.events)
		return ctrl.Result{}, nil
	}
	r.metrics.up.WithLabelValues(b.Namespace, b.Name).Set(0)
	status := *b.Status.DeepCopy()
	handle(b, &status)
	setReady(&status, b.Generation, r.Clock.Now(), metav1.Condition{
		Status: metav1.ConditionFalse, Reason: f.verdict.Reason, Message: "waiting to remove the bucket: " +
			f.verdict.Message + "; or set spec.deletionPolicy to Retain, which keeps the bucket",
	})
	if err := r.write(ctx, b, status, o.namespace == nil); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: min(removalPeriod, period(b))}, nil
}

// reportPaused reports that nothing is done about a StorageBucket, and leaves the other conditions.
func (r *Reconciler) reportPaused(ctx context.Context, b *v1beta1.StorageBucket) error {
	status := *b.Status.DeepCopy()
	setCondition(&status, b.Generation, r.Clock.Now(), metav1.Condition{
		Type: v1beta1.ConditionPaused, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonPaused,
		Message: "the operator neither probes nor changes the bucket; remove the annotation " + v1beta1.AnnotationPaused +
			" to resume",
	})
	return r.write(ctx, b, status, true)
}

// reportError reports an error that prevented a probe, and returns it for the queue, which retries
// until there is one. The error is not the endpoint's, so Ready is Unknown and no probe counts as
// failed. Most errors pass, so the first one of a bucket with a condition is not reported, unless it
// is a denial.
func (r *Reconciler) reportError(ctx context.Context, b *v1beta1.StorageBucket, err error) error {
	denied, isFirst := denial.Of(err), !r.probes.of(b, r.Clock.Now()).retrying
	if ctx.Err() != nil || apierrors.IsConflict(err) || denial.ByFence(err) ||
		isFirst && denied.Kind == denial.None && len(b.Status.Conditions) > 0 {
		return err
	}
	r.metrics.up.WithLabelValues(b.Namespace, b.Name).Set(0)
	reason := denied.Reason()
	if reason == "" {
		reason = v1beta1.ReasonReconcileFailed
	}
	status := *b.Status.DeepCopy()
	meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionPaused)
	setReady(&status, b.Generation, r.Clock.Now(), metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason,
		Message: fmt.Sprintf("the operator cannot examine the bucket, and tries again: %s", err)})
	return errors.Join(err, client.IgnoreNotFound(r.write(ctx, b, status, true)))
}

// emit records events about a StorageBucket. A terminating namespace accepts no events. In that case
// they regard the Namespace, which puts them into the namespace default.
func (r *Reconciler) emit(b *v1beta1.StorageBucket, terminating *corev1.Namespace, list []reporting.PendingEvent) {
	if terminating == nil {
		reporting.Flush(r.Recorder, b, list)
		return
	}
	for _, e := range list {
		e.Message = fmt.Sprintf("StorageBucket %s/%s: %s", b.Namespace, b.Name, e.Message)
		reporting.Flush(r.Recorder, terminating, []reporting.PendingEvent{e.About(b)})
	}
}
