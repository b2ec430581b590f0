// Package conditions sets and finds conditions as all kinds of Leasehold do.
package conditions

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Set puts c, which is about the given generation, among the conditions. The
// time of its last transition becomes now when its status changed.
func Set(list *[]metav1.Condition, generation int64, now time.Time, c metav1.Condition) {
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(list, c)
}

// Find returns the condition of a type; a zero one where there is none.
func Find(list []metav1.Condition, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(list, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Bounded keeps a message within what a condition and an event can carry.
func Bounded(message string) string {
	const most = 900
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + " ..."
}
