package markdownview

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// Admission reserves space for the status. The space is used up if the webhook was off, or if
// clients have written their own managed fields or conditions since.
const tooLargeMessage = "the object is too large for etcd to store its status; shorten its files or annotations"

// tooLargeStatus returns the smallest status that is true, for a view whose status etcd rejected.
// It has no other client's conditions.
func tooLargeStatus(v *v1beta1.MarkdownView, before v1beta1.MarkdownViewStatus, now time.Time,
) v1beta1.MarkdownViewStatus {
	small := v1beta1.MarkdownViewStatus{ObservedGeneration: v.Generation}
	for _, kind := range []string{v1beta1.ConditionReady, v1beta1.ConditionStalled} {
		if c := reporting.FindCondition(before.Conditions, kind); c.Type != "" {
			small.Conditions = append(small.Conditions, c) // keeps the time of the transition
		}
		reporting.SetCondition(&small.Conditions, v.Generation, now,
			condition(kind, kind == v1beta1.ConditionStalled, v1beta1.ReasonTooLarge, tooLargeMessage))
	}
	if c := reporting.FindCondition(v.Status.Conditions, v1beta1.ConditionAvailable); c.Type != "" {
		small.Conditions = append(small.Conditions, c)
	}
	return small
}

// tooLargeEvents returns the event that accompanies a small status, or replaces it if etcd rejected
// that too.
func tooLargeEvents(before v1beta1.MarkdownViewStatus, rejected error) []reporting.PendingEvent {
	reported := reporting.FindCondition(before.Conditions, v1beta1.ConditionReady)
	if rejected == nil && reported.Status == metav1.ConditionFalse && reported.Reason == v1beta1.ReasonTooLarge {
		return nil
	}
	return []reporting.PendingEvent{reporting.Warning(v1beta1.EventTooLarge, "Report", tooLargeMessage)}
}
