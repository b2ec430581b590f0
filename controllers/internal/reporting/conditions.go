// Package reporting is how the controllers report to users: conditions, events and metrics.
package reporting

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetCondition puts c, observed at the given generation, among the conditions. The time of
// its last transition becomes now if its status changes.
func SetCondition(list *[]metav1.Condition, generation int64, now time.Time, c metav1.Condition) {
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(list, c)
}

// FindCondition returns the condition of a type, a zero one where there is none.
func FindCondition(list []metav1.Condition, conditionType string) metav1.Condition {
	if c := meta.FindStatusCondition(list, conditionType); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Bounded cuts a message to what both a condition and an event can carry.
func Bounded(message string) string {
	const maxLength = 900
	if len(message) <= maxLength {
		return message
	}
	return strings.ToValidUTF8(message[:maxLength], "") + " ..."
}
