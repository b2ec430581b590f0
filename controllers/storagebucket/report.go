// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/denial"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// report writes the result of a probe if the status needs it, and records events. The probe counts
// once the result is written; after a failed write the queue retries with another probe.
func (r *Reconciler) report(ctx context.Context, b *v1beta1.StorageBucket, o observation, f findings) error {
	now := r.Clock.Now()
	r.metrics.countProbe(b, o, f.verdict)
	p := r.probes.of(b, now).after(b.Generation, o.lacking, f.verdict, now)
	if err := r.write(ctx, b, summarize(b, p, o.secretVersion, f, now), nil); err != nil {
		return err
	}
	r.probes.store(b, p)
	return nil
}

// reportRemoval reports the end of a bucket, or why it cannot be removed yet.
func (r *Reconciler) reportRemoval(ctx context.Context, b *v1beta1.StorageBucket, o observation,
	f findings) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer) {
		if f.kept != "" {
			r.metrics.retained.WithLabelValues(f.kept).Inc()
		}
		r.emit(b, o.namespace, f.events...)
		return ctrl.Result{}, nil
	}
	r.metrics.up.WithLabelValues(b.Namespace, b.Name).Set(0)
	status := handled(b)
	setReady(&status, b.Generation, r.Clock.Now(), metav1.Condition{
		Status: metav1.ConditionFalse, Reason: f.verdict.Reason, Message: "waiting to delete the bucket: " +
			f.verdict.Message + "; to keep the bucket instead, set spec.deletionPolicy to Retain"})
	if err := r.write(ctx, b, status, o.namespace); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: min(removalPeriod, period(b))}, nil
}

// reportPaused reports that nothing is done about a StorageBucket, and leaves the other conditions.
func (r *Reconciler) reportPaused(ctx context.Context, b *v1beta1.StorageBucket) error {
	status := *b.Status.DeepCopy()
	reporting.SetPaused(&status.Conditions, b.Generation, r.Clock.Now(), "the operator neither probes nor changes the bucket")
	return r.write(ctx, b, status, nil)
}

// reportError reports an error that prevented a probe, and returns it for the queue, which retries. It is
// not the endpoint's, so Ready is Unknown and no probe counts as failed. Most errors pass, so the first
// one of a bucket with a condition is not reported, unless it is a denial or has used up the time of the reconcile.
func (r *Reconciler) reportError(ctx context.Context, b *v1beta1.StorageBucket, err error) error {
	denied, isFirst := denial.Of(err), !r.probes.of(b, r.Clock.Now()).retrying
	if errors.Is(ctx.Err(), context.Canceled) || apierrors.IsConflict(err) || denial.ByFence(err) ||
		isFirst && ctx.Err() == nil && denied.Kind == denial.None && len(b.Status.Conditions) > 0 {
		return err
	}
	r.metrics.up.WithLabelValues(b.Namespace, b.Name).Set(0)
	status := *b.Status.DeepCopy()
	meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionPaused)
	setReady(&status, b.Generation, r.Clock.Now(), metav1.Condition{Status: metav1.ConditionUnknown,
		Reason:  cmp.Or(denied.Reason(), v1beta1.ReasonReconcileFailed),
		Message: fmt.Sprintf("the operator cannot probe the bucket and will retry: %s", err)})
	return reconciler.Failed(err, client.IgnoreNotFound(r.write(ctx, b, status, nil)))
}

// write writes a status that differs from the stored one in more than counts. Then it records the events
// of the change, unless the namespace is terminating, and accepts none.
func (r *Reconciler) write(ctx context.Context, b *v1beta1.StorageBucket, status v1beta1.StorageBucketStatus,
	terminating *corev1.Namespace) error {
	before := b.DeepCopy()
	if needsWrite(before.Status, status) {
		b.Status = status
		ctx, cancel := reconciler.ReportContext(ctx)
		defer cancel()
		if err := apply.PatchStatus(ctx, r.Client, b, before); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	}
	if terminating == nil {
		reporting.Flush(r.Recorder, b, transitions(before.Status, status))
	}
	return nil
}

// emit records events about a StorageBucket. A terminating namespace accepts no events. In that case
// they regard the Namespace, which puts them into the namespace default.
func (r *Reconciler) emit(b *v1beta1.StorageBucket, terminating *corev1.Namespace, list ...reporting.PendingEvent) {
	if terminating == nil {
		reporting.Flush(r.Recorder, b, list)
		return
	}
	for _, e := range list {
		e.Message = fmt.Sprintf("StorageBucket %s/%s: %s", b.Namespace, b.Name, e.Message)
		reporting.Flush(r.Recorder, terminating, []reporting.PendingEvent{e.About(b)})
	}
}

// consequences of a failure, by its reason. The others need the failure threshold, retry and are
// reported as BucketUnhealthy.
var consequences = map[string]struct {
	isCertain bool // another probe would have the same result
	isStalled bool // a user has to act
	event     string
}{
	v1beta1.ReasonBucketNotFound:      {isCertain: true},
	v1beta1.ReasonInvalidCredentials:  {isStalled: true, event: v1beta1.EventCredentialsRejected},
	v1beta1.ReasonCredentialsNotFound: {isCertain: true, isStalled: true, event: v1beta1.EventCredentialsRejected},
	v1beta1.ReasonEndpointForbidden:   {isCertain: true, isStalled: true, event: v1beta1.EventEndpointForbidden},
	v1beta1.ReasonBucketConflict:      {isCertain: true, isStalled: true, event: v1beta1.EventBucketConflict},
	v1beta1.ReasonTagsNotSupported:    {isCertain: true, isStalled: true},
	v1beta1.ReasonBucketNotEmpty:      {event: v1beta1.EventBucketNotEmpty},
}

// summarize returns the status after a probe. It is pure.
func summarize(b *v1beta1.StorageBucket, p probe, secretVersion string, f findings,
	now time.Time) v1beta1.StorageBucketStatus {
	status := handled(b)
	status.LastProbeTime = new(metav1.NewTime(p.ended))
	if !p.succeeded.IsZero() {
		status.LastSuccessTime = new(metav1.NewTime(p.succeeded))
	}
	status.ConsecutiveFailures, status.ObservedSecretResourceVersion = p.failures, secretVersion
	status.Provisioning = cmp.Or(f.provisioning, status.Provisioning)
	setReady(&status, b.Generation, now, ready(b, p.failures, f.verdict))
	return status
}

// isRequested reports whether an annotation requests a probe that was not handled yet.
func isRequested(b *v1beta1.StorageBucket) bool {
	value := reconciler.RequestedAt(b)
	return value != "" && value != b.Status.LastHandledReconcileAt
}

// handled returns the status of a StorageBucket whose request is handled, and that is not paused any more.
func handled(b *v1beta1.StorageBucket) v1beta1.StorageBucketStatus {
	status := *b.Status.DeepCopy()
	status.LastHandledReconcileAt = cmp.Or(reconciler.RequestedAt(b), status.LastHandledReconcileAt)
	meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionPaused)
	return status
}

// ready returns the Ready condition after a probe. Below the failure threshold a failure changes only
// the message, unless no probe of this generation has succeeded.
func ready(b *v1beta1.StorageBucket, failures int32, result s3.Verdict) metav1.Condition {
	if result.OK() {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: result.Reason, Message: result.Message}
	}
	before := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
	threshold := b.Spec.Probe.FailureThreshold
	if failures >= threshold || before.Status == metav1.ConditionFalse || consequences[result.Reason].isCertain {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: result.Reason, Message: result.Message}
	}
	counted := fmt.Sprintf("%d of %d probes in a row failed: %s: %s", failures, threshold, result.Reason,
		result.Message)
	if before.Status == metav1.ConditionTrue && before.ObservedGeneration == b.Generation {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: before.Reason, Message: counted}
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonProbePending, Message: counted}
}

// setReady sets the Ready condition, and sets or removes Stalled by its reason.
func setReady(status *v1beta1.StorageBucketStatus, generation int64, now time.Time, c metav1.Condition) {
	status.ObservedGeneration = generation
	c.Type, c.Message = v1beta1.ConditionReady, reporting.Bounded(c.Message)
	reporting.SetCondition(&status.Conditions, generation, now, c)
	if c.Status != metav1.ConditionFalse || !consequences[c.Reason].isStalled {
		meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionStalled)
		return
	}
	c.Type, c.Status = v1beta1.ConditionStalled, metav1.ConditionTrue
	reporting.SetCondition(&status.Conditions, generation, now, c)
}

// needsWrite reports whether a status differs in more than counts and times, or is older than refresh.
func needsWrite(before, after v1beta1.StorageBucketStatus) bool {
	if before.LastProbeTime != nil && after.LastProbeTime != nil &&
		after.LastProbeTime.Sub(before.LastProbeTime.Time).Abs() < refresh {
		before.LastProbeTime, before.LastSuccessTime, before.ConsecutiveFailures =
			after.LastProbeTime, after.LastSuccessTime, after.ConsecutiveFailures
	}
	return !equality.Semantic.DeepEqual(before, after)
}

// transitions returns the events for the change from one status to the next.
func transitions(before, after v1beta1.StorageBucketStatus) []reporting.PendingEvent {
	was := reporting.FindCondition(before.Conditions, v1beta1.ConditionReady)
	is := reporting.FindCondition(after.Conditions, v1beta1.ConditionReady)
	isHealthy := is.Status == metav1.ConditionTrue
	switch {
	case was.Status == is.Status && (isHealthy || was.Reason == is.Reason),
		is.Reason == v1beta1.ReasonProbePending, is.Reason == v1beta1.ReasonCreating:
		return nil
	case isHealthy:
		return []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketHealthy, "Probe", "%s", is.Message)}
	}
	return []reporting.PendingEvent{reporting.Warning(
		cmp.Or(consequences[is.Reason].event, v1beta1.EventBucketUnhealthy), is.Reason, "%s: %s", is.Reason, is.Message)}
}
