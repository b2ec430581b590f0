package conditions

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSetKeepsTheTimeOfTheLastTransition(t *testing.T) {
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var list []metav1.Condition
	Set(&list, 1, first, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Fine"})
	Set(&list, 2, first.Add(time.Hour), metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Better"})
	got := Find(list, "Ready")
	if got.ObservedGeneration != 2 || got.Reason != "Better" || !got.LastTransitionTime.Time.Equal(first) {
		t.Errorf("after a change of reason: %+v, want generation 2 and the first time", got)
	}
	Set(&list, 2, first.Add(time.Hour), metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Worse"})
	if got := Find(list, "Ready"); !got.LastTransitionTime.Time.Equal(first.Add(time.Hour)) {
		t.Errorf("after a change of status: %+v, want the later time", got)
	}
	if got := Find(list, "Stalled"); got != (metav1.Condition{}) {
		t.Errorf("a condition that is not there: %+v", got)
	}
}

func TestBoundedCutsBetweenLetters(t *testing.T) {
	if got := Bounded(strings.Repeat("é", 900)); len(got) > 910 || !strings.HasSuffix(got, "é ...") {
		t.Errorf("cut within a letter or not at all: %d bytes, ends in %q", len(got), got[len(got)-8:])
	}
	if got := Bounded("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}
