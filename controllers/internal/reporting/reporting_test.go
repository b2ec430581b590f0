// SPDX-License-Identifier: Apache-2.0

package reporting

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
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

// The condition names the last correction, as long as the spec is the same.
func TestSetCorrected(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	label, owner := Corrected("namespace a", []string{`label x was "y" and is "z"`, "annotation u was missing"}),
		Corrected("namespace b", []string{"owner o"})
	other := Warning("Failed", "Fail", "no")
	var list []metav1.Condition
	for i, tc := range []struct {
		generation int64
		events     []PendingEvent
		want       string
		at         int64
	}{
		{1, []PendingEvent{other}, "", 0},
		{1, []PendingEvent{other, label, owner},
			`corrected namespace a: label x was "y" and is "z"; annotation u was missing; corrected namespace b: owner o`, 1},
		{1, []PendingEvent{owner}, "corrected namespace b: owner o", 1},
		{1, nil, "corrected namespace b: owner o", 1},
		{1, []PendingEvent{other}, "corrected namespace b: owner o", 1},
		{2, []PendingEvent{label}, label.Message, 2},
		{3, nil, "", 0},
	} {
		SetCorrected(&list, tc.generation, now, tc.events)
		if got := FindCondition(list, "DriftCorrected"); got.Message != tc.want || got.ObservedGeneration != tc.at ||
			(got.Status == metav1.ConditionTrue) != (tc.want != "") {
			t.Errorf("step %d: %+v, want %q at generation %d", i, got, tc.want, tc.at)
		}
	}
	long := Corrected("namespace a", []string{strings.Repeat("x", 2000)})
	SetCorrected(&list, 3, now, []PendingEvent{long, long})
	if got := FindCondition(list, "DriftCorrected").Message; len(long.Message) > 1024 || len(got) > 1024 {
		t.Errorf("an event has %d bytes, and the condition %d, more than is permitted", len(long.Message), len(got))
	}
}

func TestSetPaused(t *testing.T) {
	var list []metav1.Condition
	SetPaused(&list, 3, time.Now(), "nothing is written")
	const message = `nothing is written while the annotation leasehold.dev/paused exists with any value except "false"; ` +
		"to resume, remove the annotation"
	if got := FindCondition(list, "Paused"); got.Status != metav1.ConditionTrue || got.Reason != "Paused" ||
		got.ObservedGeneration != 3 || got.Message != message {
		t.Errorf("Paused %+v", got)
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

// relatedRecorder records the second objects of events, which the fake of client-go drops.
type relatedRecorder struct{ related []runtime.Object }

func (r *relatedRecorder) Eventf(_, related runtime.Object, _, _, _, _ string, _ ...any) {
	r.related = append(r.related, related)
}

// The recorder counts events about different namespaces as one if they lack the second object.
func TestFlush_names_related_object(t *testing.T) {
	recorder, related := &relatedRecorder{}, &corev1.ObjectReference{Kind: "Namespace", Name: "a"}
	pending := Normal("Created", "Create", "created")
	Flush(recorder, &corev1.Namespace{}, []PendingEvent{pending.About(related), pending})
	if diff := cmp.Diff([]runtime.Object{related, nil}, recorder.related); diff != "" {
		t.Errorf("related objects (-want +got):\n%s", diff)
	}
}

// Each pending event is recorded once, in order, with its type. A message with a per cent sign is no format.
func TestFlush(t *testing.T) {
	recorder := events.NewFakeRecorder(2)
	Flush(recorder, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, []PendingEvent{
		Normal("Updated", "Update", "%s is %d%% done", "a", 50), Warning("Failed", "Update", "%s", "100%s"),
	})
	close(recorder.Events)
	var got []string
	for e := range recorder.Events {
		got = append(got, e)
	}
	if diff := cmp.Diff([]string{"Normal Updated a is 50% done", "Warning Failed 100%s"}, got); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// Two controllers of one process share a metric. Registering two metrics with the same name and different
// labels panics.
func TestRegisterMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	options := prometheus.CounterOpts{Name: "made_total", Help: "What was made."}
	first := RegisterMetric(registry, prometheus.NewCounter(options))
	again := RegisterMetric(registry, prometheus.NewCounter(options))
	if again != first {
		t.Error("the same again is not shared")
	}
	again.Inc()
	if err := testutil.GatherAndCompare(registry,
		strings.NewReader("# HELP made_total What was made.\n# TYPE made_total counter\nmade_total 1\n")); err != nil {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("other labels under the same name are accepted")
		}
	}()
	RegisterMetric(registry, prometheus.NewCounterVec(options, []string{"by"}))
}

// A request that is no review has no line in the log.
func TestLogOfReview(t *testing.T) {
	review := &admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "review-1", Name: "acme"}}
	for name, tc := range map[string]struct {
		review *admission.Request
		lines  int
	}{
		"Review":       {review, 1},
		"OtherRequest": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			base := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			LogOfReview(base, tc.review).Info("denied")
			if len(lines) != tc.lines || tc.lines > 0 && !strings.Contains(lines[0], "acme") {
				t.Errorf("the log has %q, want %d lines", lines, tc.lines)
			}
		})
	}
}

// Stalled is there if Ready is False for a reason that only a person resolves, and only then.
func TestSetReady_stalled(t *testing.T) {
	for _, tc := range []struct {
		status metav1.ConditionStatus
		reason string
		want   bool
	}{
		{metav1.ConditionFalse, "RBACForbidden", true}, {metav1.ConditionUnknown, "RBACForbidden", false},
		{metav1.ConditionTrue, "RBACForbidden", false}, {metav1.ConditionFalse, "ReconcileFailed", false},
	} {
		list := []metav1.Condition{{Type: "Stalled", Status: metav1.ConditionTrue}}
		SetReady(&list, 1, time.Now(), metav1.Condition{Status: tc.status, Reason: tc.reason})
		if got := FindCondition(list, "Stalled"); (got.Status == metav1.ConditionTrue) != tc.want ||
			tc.want && got.Reason != tc.reason {
			t.Errorf("Ready %s %s: Stalled %+v, want it: %t", tc.status, tc.reason, got, tc.want)
		}
	}
}
