// Package reporting has what controllers need to report to users: conditions, events and metrics.
package reporting

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetCondition sets c, observed at the given generation, in the list. It sets the time of the last
// transition to now if the status of the condition changes.
func SetCondition(list *[]metav1.Condition, generation int64, now time.Time, c metav1.Condition) {
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(list, c)
}

// FindCondition returns the condition of a type, or the zero Condition if there is none.
func FindCondition(list []metav1.Condition, conditionType string) metav1.Condition {
	if c := meta.FindStatusCondition(list, conditionType); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Bounded truncates a message to the length that conditions and events allow.
func Bounded(message string) string {
	const maxLength = 900
	if len(message) <= maxLength {
		return message
	}
	return strings.ToValidUTF8(message[:maxLength], "") + " ..."
}
