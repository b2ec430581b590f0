// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/failure"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

const removalPeriod = 30 * time.Second // between two attempts to remove a bucket, at most

// report reports the end of a bucket, why it cannot be removed yet, or the result of a probe. The probe counts
// once the result is written; after a failed write the queue retries with another probe.
func (r *Reconciler) report(ctx context.Context, o *observation, p plan, res *result) (ctrl.Result, error) {
	b, now := o.bucket, r.Clock.Now()
	switch {
	case res.released:
		if p.kept != "" {
			r.metrics.retained.WithLabelValues(p.kept).Inc()
		}
		r.emit(b, o.namespace, p.events...)
		return ctrl.Result{}, nil
	case !b.DeletionTimestamp.IsZero():
		r.metrics.up.WithLabelValues(b.Namespace, b.Name).Set(0)
		return ctrl.Result{RequeueAfter: min(removalPeriod, period(b))}, r.write(ctx, b, waiting(b, res, now), o.namespace)
	}
	r.metrics.countProbe(b, o, res.verdict)
	known := r.probes.of(b, now).after(b.Generation, o.lacking, res.verdict, now)
	if err := r.write(ctx, b, summarize(o, known, res, now), nil); err != nil {
		return ctrl.Result{}, err
	}
	r.probes.store(b, known)
	return ctrl.Result{}, nil
}

// reportPaused reports that nothing is done about a StorageBucket, and leaves the other conditions.
func (r *Reconciler) reportPaused(ctx context.Context, b *v1beta1.StorageBucket) error {
	status := *b.Status.DeepCopy()
	reporting.SetPaused(&status.Conditions, b.Generation, r.Clock.Now(),
		"the operator neither probes nor changes the bucket")
	return r.write(ctx, b, status, nil)
}

// fail reports an error that prevented a probe, and returns it for the queue, which retries. It is
// not the endpoint's, so Ready is Unknown and no probe counts as failed. Most errors pass, so the first
// one of a bucket with a condition is not reported, unless it is a denial or has used up the time of the reconcile.
func (r *Reconciler) fail(ctx context.Context, b *v1beta1.StorageBucket, err error) error {
	kind, isFirst := failure.Of(err), !r.probes.of(b, r.Clock.Now()).retrying
	r.probes.retry(b, r.Clock.Now())
	if isFirst && ctx.Err() == nil && !kind.IsDenial && len(b.Status.Conditions) > 0 {
		return err
	}
	return reconciler.Fail(err, func() error {
		r.metrics.up.WithLabelValues(b.Namespace, b.Name).Set(0)
		status := *b.Status.DeepCopy()
		setReady(&status, b.Generation, r.Clock.Now(), metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: kind.Reason,
			Message: fmt.Sprintf("the operator cannot probe the bucket and will retry: %s", err)})
		return r.write(ctx, b, status, nil)
	})
}

// write writes a status that differs from the stored one in more than counts. Then it records the events
// of the change, unless the namespace is terminating, and accepts none.
func (r *Reconciler) write(ctx context.Context, b *v1beta1.StorageBucket, status v1beta1.StorageBucketStatus,
	terminating *corev1.Namespace) error {
	after := b.DeepCopy()
	if needsWrite(b.Status, status) {
		after.Status = status
	}
	var events []reporting.PendingEvent
	if terminating == nil {
		events = transitions(b.Status, status)
	}
	if err := r.Report(ctx, b, after, events...); err != nil {
		r.probes.retry(b, r.Clock.Now())
		return err
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

// consequences of a failure, by its reason. The others need the failure threshold and are reported as BucketUnhealthy.
var consequences = map[string]struct {
	isCertain bool // another probe would have the same result
	event     string
}{
	v1beta1.ReasonBucketNotFound:      {isCertain: true},
	v1beta1.ReasonInvalidCredentials:  {event: v1beta1.EventCredentialsRejected},
	v1beta1.ReasonCredentialsNotFound: {isCertain: true, event: v1beta1.EventCredentialsRejected},
	v1beta1.ReasonEndpointForbidden:   {isCertain: true, event: v1beta1.EventEndpointForbidden},
	v1beta1.ReasonBucketConflict:      {isCertain: true, event: v1beta1.EventBucketConflict},
	v1beta1.ReasonTagsNotSupported:    {isCertain: true},
	v1beta1.ReasonBucketNotEmpty:      {event: v1beta1.EventBucketNotEmpty},
}

// summarize returns the status after a probe. It is pure.
func summarize(o *observation, known probe, res *result, now time.Time) v1beta1.StorageBucketStatus {
	status := handled(o.bucket)
	status.LastProbeTime = new(metav1.NewTime(known.ended))
	if !known.succeeded.IsZero() {
		status.LastSuccessTime = new(metav1.NewTime(known.succeeded))
	}
	status.ConsecutiveFailures, status.ObservedSecretResourceVersion = known.failures, o.secretVersion
	status.Provisioning = cmp.Or(res.provisioning, status.Provisioning)
	setReady(&status, o.bucket.Generation, now, ready(o.bucket, known.failures, res.verdict))
	return status
}

// waiting returns the status of a terminating StorageBucket whose bucket cannot be removed yet. It is pure.
func waiting(b *v1beta1.StorageBucket, res *result, now time.Time) v1beta1.StorageBucketStatus {
	status := handled(b)
	setReady(&status, b.Generation, now, metav1.Condition{
		Status: metav1.ConditionFalse, Reason: res.verdict.Reason, Message: "waiting to delete the bucket: " +
			res.verdict.Message + "; to keep the bucket instead, set spec.deletionPolicy to Retain"})
	return status
}

// handled returns the status of a StorageBucket whose request is handled.
func handled(b *v1beta1.StorageBucket) v1beta1.StorageBucketStatus {
	status := *b.Status.DeepCopy()
	status.LastHandledReconcileAt = cmp.Or(reconciler.RequestedAt(b), status.LastHandledReconcileAt)
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
	counted := fmt.Sprintf("consecutive failed probes: %d (Ready becomes False after %d); last failure: %s: %s", failures,
		threshold, result.Reason, result.Message)
	if before.Status == metav1.ConditionTrue && before.ObservedGeneration == b.Generation {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: before.Reason, Message: counted}
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonProbePending, Message: counted}
}

// setReady sets the Ready condition of a generation.
func setReady(status *v1beta1.StorageBucketStatus, generation int64, now time.Time, c metav1.Condition) {
	status.ObservedGeneration = generation
	reporting.SetReady(&status.Conditions, generation, now, c)
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
