package storagebucket

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// certain lists the reasons that ignore the failure threshold, since another probe would
// have the same result.
var certain = []string{
	v1beta1.ReasonBucketNotFound, v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonEndpointForbidden,
	v1beta1.ReasonBucketConflict,
}

// stalling lists the reasons that require a user's action.
var stalling = []string{
	v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonInvalidCredentials, v1beta1.ReasonEndpointForbidden,
	v1beta1.ReasonBucketConflict,
}

// maxConditions is the limit of the CRD's schema.
const maxConditions = 8

// judge returns the verdict of a reconcile: that of the action if any, else of the probe.
func judge(found observation, acted action) s3.Verdict {
	if acted.verdict != nil {
		return *acted.verdict
	}
	return found.verdict
}

// summarize returns the status after a reconcile. It is pure.
func summarize(b *v1beta1.StorageBucket, s probeState, found observation, acted action, result s3.Verdict,
	now time.Time) v1beta1.StorageBucketStatus {
	status := *b.Status.DeepCopy()
	status.LastProbeTime = new(metav1.NewTime(s.probed))
	if !s.succeeded.IsZero() {
		status.LastSuccessTime = new(metav1.NewTime(s.succeeded))
	}
	status.ConsecutiveFailures = s.failures
	status.ObservedSecretResourceVersion = found.secretVersion
	if acted.provisioning != "" {
		status.Provisioning = acted.provisioning
	}
	// Conditions of other clients are dropped if there would be too many with the operator's.
	if len(status.Conditions) > maxConditions-2 {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool {
			return c.Type != v1beta1.ConditionReady && c.Type != v1beta1.ConditionStalled
		})
	}
	setReady(&status, b.Generation, now, ready(b, s.failures, result))
	status.ObservedGeneration = b.Generation
	return status
}

// ready returns the Ready condition after a probe. Below the failure threshold a failure
// changes only the message. This tolerance does not apply to a generation whose probes have
// never succeeded.
func ready(b *v1beta1.StorageBucket, failures int32, result s3.Verdict) metav1.Condition {
	if result.OK() {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: result.Reason, Message: result.Message}
	}
	before := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
	threshold := b.Spec.Probe.FailureThreshold
	if failures >= threshold || before.Status == metav1.ConditionFalse || slices.Contains(certain, result.Reason) {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: result.Reason, Message: result.Message}
	}
	counted := fmt.Sprintf("%d of %d probes in a row failed: %s: %s", failures, threshold, result.Reason, result.Message)
	if before.Status == metav1.ConditionTrue && before.ObservedGeneration == b.Generation {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: before.Reason, Message: counted}
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonProbePending, Message: counted}
}

// setReady sets the Ready condition, and sets or removes Stalled by its reason.
func setReady(status *v1beta1.StorageBucketStatus, generation int64, now time.Time, c metav1.Condition) {
	c.Type, c.Message = v1beta1.ConditionReady, reporting.Bounded(c.Message)
	reporting.SetCondition(&status.Conditions, generation, now, c)
	if c.Status != metav1.ConditionFalse || !slices.Contains(stalling, c.Reason) {
		meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionStalled)
		return
	}
	c.Type, c.Status = v1beta1.ConditionStalled, metav1.ConditionTrue
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
	if was.Status == is.Status && (is.Status != metav1.ConditionFalse || was.Reason == is.Reason) {
		return nil
	}
	switch is.Status {
	case metav1.ConditionTrue:
		return []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketHealthy, "Probe", "%s", is.Message)}
	case metav1.ConditionFalse:
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
