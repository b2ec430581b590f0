package reporting

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSetCondition_keeps_transition_time(t *testing.T) {
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var list []metav1.Condition
	SetCondition(&list, 1, first, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Fine"})
	SetCondition(&list, 2, first.Add(time.Hour),
		metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Better"})
	got := FindCondition(list, "Ready")
	if got.ObservedGeneration != 2 || got.Reason != "Better" || !got.LastTransitionTime.Time.Equal(first) {
		t.Errorf("after a change of reason: %+v, want generation 2 and the first time", got)
	}
	SetCondition(&list, 2, first.Add(time.Hour),
		metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Worse"})
	if got := FindCondition(list, "Ready"); !got.LastTransitionTime.Time.Equal(first.Add(time.Hour)) {
		t.Errorf("after a change of status: %+v, want the later time", got)
	}
	if got := FindCondition(list, "Stalled"); got != (metav1.Condition{}) {
		t.Errorf("a condition that is not there: %+v", got)
	}
}

// A long message is truncated between characters, and no shorter than necessary.
func TestBounded_keeps_runes_whole(t *testing.T) {
	const maxLength = 900
	for _, letter := range []string{"x", "é", "€", "😀"} {
		for before := range len(letter) + 1 {
			for _, size := range []int{0, 1, maxLength - 1, maxLength, maxLength + 1, maxLength + 2, maxLength + 3,
				2 * maxLength} {
				message := strings.Repeat("x", before) + strings.Repeat(letter, size/len(letter))
				got := Bounded(message)
				if len(message) <= maxLength {
					if got != message {
						t.Errorf("%d bytes of %q after %d others were changed", len(message), letter, before)
					}
					continue
				}
				kept, cut := strings.CutSuffix(got, " ...")
				if !cut || !utf8.ValidString(got) || !strings.HasPrefix(message, kept) || len(kept) > maxLength ||
					len(kept) <= maxLength-len(letter) {
					t.Errorf("%d bytes of %q after %d others: %d are kept, and it ends in %q",
						len(message), letter, before, len(kept), got[len(got)-8:])
				}
			}
		}
	}
	if got := Bounded("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}
