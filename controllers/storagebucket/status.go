package storagebucket

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// certain lists the reasons that ignore the failure threshold, since another probe would
// have the same result.
var certain = []string{
	v1beta1.ReasonBucketNotFound, v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonEndpointForbidden,
	v1beta1.ReasonBucketConflict, v1beta1.ReasonTagsNotSupported,
}

// stalling lists the reasons that require a user's action.
var stalling = []string{
	v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonInvalidCredentials, v1beta1.ReasonEndpointForbidden,
	v1beta1.ReasonBucketConflict, v1beta1.ReasonTagsNotSupported,
}

// immutable lists the reasons whose remedy is a change that the API refuses for a managed bucket.
var immutable = []string{v1beta1.ReasonRegionMismatch, v1beta1.ReasonEndpointForbidden}

// maxConditions is the limit of the CRD's schema.
const maxConditions = 8

// own are the types of the operator's conditions.
var own = []string{v1beta1.ConditionReady, v1beta1.ConditionStalled, v1beta1.ConditionPaused}

// summarize returns the status after a probe. It is pure.
func summarize(b *v1beta1.StorageBucket, p probe, secretVersion string, f findings,
	now time.Time) v1beta1.StorageBucketStatus {
	status := *b.Status.DeepCopy()
	status.LastProbeTime = new(metav1.NewTime(p.ended))
	if !p.succeeded.IsZero() {
		status.LastSuccessTime = new(metav1.NewTime(p.succeeded))
	}
	status.ConsecutiveFailures = p.failures
	status.ObservedSecretResourceVersion = secretVersion
	if f.provisioning != "" {
		status.Provisioning = f.provisioning
	}
	handle(b, &status)
	setReady(&status, b.Generation, now, ready(b, p.failures, f.verdict))
	return status
}

// isRequested reports whether an annotation requests a probe that was not handled yet.
func isRequested(b *v1beta1.StorageBucket) bool {
	value := reconciler.RequestedAt(b)
	return value != "" && value != b.Status.LastHandledReconcileAt
}

// handle records that a request is handled, and that the StorageBucket is not paused any more.
func handle(b *v1beta1.StorageBucket, status *v1beta1.StorageBucketStatus) {
	if isRequested(b) {
		status.LastHandledReconcileAt = reconciler.RequestedAt(b)
	}
	meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionPaused)
}

// ready returns the Ready condition after a probe. Below the failure threshold a failure
// changes only the message. This tolerance does not apply to a generation whose probes have
// never succeeded.
func ready(b *v1beta1.StorageBucket, failures int32, result s3.Verdict) metav1.Condition {
	if result.OK() {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: result.Reason, Message: result.Message}
	}
	message := result.Message
	if b.Spec.ManagementPolicy == v1beta1.BucketManage && slices.Contains(immutable, result.Reason) {
		message += "; endpoint and region of a managed bucket cannot be changed, so create another StorageBucket"
	}
	before := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
	threshold := b.Spec.Probe.FailureThreshold
	if failures >= threshold || before.Status == metav1.ConditionFalse || slices.Contains(certain, result.Reason) {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: result.Reason, Message: message}
	}
	counted := fmt.Sprintf("%d of %d probes in a row failed: %s: %s", failures, threshold, result.Reason, message)
	if before.Status == metav1.ConditionTrue && before.ObservedGeneration == b.Generation {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: before.Reason, Message: counted}
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonProbePending, Message: counted}
}

// setReady sets the Ready condition, and sets or removes Stalled by its reason.
func setReady(status *v1beta1.StorageBucketStatus, generation int64, now time.Time, c metav1.Condition) {
	status.ObservedGeneration = generation
	c.Type = v1beta1.ConditionReady
	setCondition(status, generation, now, c)
	if c.Status != metav1.ConditionFalse || !slices.Contains(stalling, c.Reason) {
		meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionStalled)
		return
	}
	c.Type, c.Status = v1beta1.ConditionStalled, metav1.ConditionTrue
	setCondition(status, generation, now, c)
}

// setCondition sets a condition. It drops those of other clients if there would be too many with the
// operator's own.
func setCondition(status *v1beta1.StorageBucketStatus, generation int64, now time.Time, c metav1.Condition) {
	ours := slices.DeleteFunc(slices.Clone(status.Conditions), func(c metav1.Condition) bool {
		return !slices.Contains(own, c.Type)
	})
	if len(status.Conditions)-len(ours) > maxConditions-len(own) {
		status.Conditions = ours
	}
	c.Message = reporting.Bounded(c.Message)
	reporting.SetCondition(&status.Conditions, generation, now, c)
}

// needsWrite reports whether a status differs in more than counts and times, or is older
// than refresh.
func needsWrite(before, after v1beta1.StorageBucketStatus) bool {
	if before.LastProbeTime == nil || after.LastProbeTime == nil ||
		after.LastProbeTime.Sub(before.LastProbeTime.Time).Abs() >= refresh {
		return !equality.Semantic.DeepEqual(before, after)
	}
	before.LastProbeTime, before.LastSuccessTime, before.ConsecutiveFailures =
		after.LastProbeTime, after.LastSuccessTime, after.ConsecutiveFailures
	return !equality.Semantic.DeepEqual(before, after)
}

// transitions returns the events for the change from one status to the next. An unchanged
// status has none.
func transitions(before, after v1beta1.StorageBucketStatus) []reporting.PendingEvent {
	was := reporting.FindCondition(before.Conditions, v1beta1.ConditionReady)
	is := reporting.FindCondition(after.Conditions, v1beta1.ConditionReady)
	if was.Status == is.Status && (is.Status == metav1.ConditionTrue || was.Reason == is.Reason) {
		return nil
	}
	waits := is.Reason == v1beta1.ReasonProbePending || is.Reason == v1beta1.ReasonCreating
	switch {
	case is.Status == metav1.ConditionTrue:
		return []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketHealthy, "Probe", "%s", is.Message)}
	case is.Status == metav1.ConditionFalse, is.Status == metav1.ConditionUnknown && !waits:
		return []reporting.PendingEvent{reporting.Warning(failureEvent(is.Reason), is.Reason, "%s: %s", is.Reason,
			is.Message)}
	}
	return nil
}

// failureEvent returns the event reason for a bucket that cannot be used.
func failureEvent(reason string) string {
	switch reason {
	case v1beta1.ReasonInvalidCredentials, v1beta1.ReasonCredentialsNotFound:
		return v1beta1.EventCredentialsRejected
	case v1beta1.ReasonEndpointForbidden:
		return v1beta1.EventEndpointForbidden
	case v1beta1.ReasonBucketConflict:
		return v1beta1.EventBucketConflict
	case v1beta1.ReasonBucketNotEmpty:
		return v1beta1.EventBucketNotEmpty
	}
	return v1beta1.EventBucketUnhealthy
}
