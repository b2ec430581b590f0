// SPDX-License-Identifier: Apache-2.0

package expect_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/expect"
)

// row is one value against one matcher.
type row struct {
	reason  string
	actual  any
	matcher gomegatypes.GomegaMatcher
	matches bool
	says    []string // parts of the message; the negated one where the value matches
	fails   string   // part of the error, where the comparison itself is wrong
}

func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			got, err := r.matcher.Match(r.actual)
			if r.fails != "" {
				if err == nil || !strings.Contains(err.Error(), r.fails) {
					t.Errorf("%s: Match() error = %v, want it to contain %q", r.reason, err, r.fails)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: Match() error = %v", r.reason, err)
			}
			if got != r.matches {
				t.Errorf("%s: Match() = %t, want %t", r.reason, got, r.matches)
			}
			message := r.matcher.FailureMessage(r.actual)
			if r.matches {
				message = r.matcher.NegatedFailureMessage(r.actual)
			}
			for _, part := range r.says {
				if !strings.Contains(message, part) {
					t.Errorf("%s: the message lacks %q:\n%s", r.reason, part, message)
				}
			}
		})
	}
}

func configMap(mutate ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "child"}}
	for _, f := range mutate {
		f(o)
	}
	return o
}

func owner(name, uid string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
}

func reference(name, uid string, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID(uid),
		Controller: &controller}
}

func owned(refs ...metav1.OwnerReference) *corev1.ConfigMap {
	return configMap(func(o *corev1.ConfigMap) { o.OwnerReferences = refs })
}

func TestOwners(t *testing.T) {
	a := owner("a", "uid-a")
	check(t, map[string]row{
		"OwnedByNobody": {"no references", configMap(), expect.BeControlledBy(a), false,
			[]string{"The controllers of ConfigMap ns/child"}, ""},
		"Controlled": {"one controller and it is the owner", owned(reference("a", "uid-a", true)),
			expect.BeControlledBy(a), true, []string{"not to consist of"}, ""},
		"ControlledAmongOthers": {"plain references do not disturb",
			owned(reference("b", "uid-b", false), reference("a", "uid-a", true)), expect.BeControlledBy(a), true, nil, ""},
		"OwnedNotControlled": {"a plain reference does not control", owned(reference("a", "uid-a", false)),
			expect.BeControlledBy(a), false, []string{"to consist of", "uid-a"}, ""},
		"ControlledBySameName": {"by UID, not by name", owned(reference("a", "uid-before", true)), expect.BeControlledBy(a),
			false, []string{"ConfigMap ns/child", "uid-a", "uid-before"}, ""},
		"TwoControllers": {"an object with two controllers is broken",
			owned(reference("b", "uid-b", true), reference("a", "uid-a", true)), expect.BeControlledBy(a), false,
			[]string{"uid-b"}, ""},
		"OwnerNeverRead": {"an owner without UID would match nothing for the wrong reason", configMap(),
			expect.BeControlledBy(owner("a", "")), false, nil, "has no UID"},
		"NotAnObject": {"wrong type", "text", expect.BeControlledBy(a), false, nil,
			`an object is needed, got "text"`},
		"NilObject": {"nil of the right type", (*corev1.ConfigMap)(nil), expect.BeControlledBy(a), false, nil,
			"got (*v1.ConfigMap)(nil)"},
		"ExactlyNone": {"no references wanted or found", configMap(), expect.HaveOwnerReferences(), true, nil, ""},
		"ExactlyNoneButOne": {"one too many", owned(reference("a", "uid-a", true)), expect.HaveOwnerReferences(), false,
			[]string{"The owner references of", "uid-a"}, ""},
		"ExactlyTwoInAnyOrder": {"the order means nothing",
			owned(reference("b", "uid-b", false), reference("a", "uid-a", true)),
			expect.HaveOwnerReferences(reference("a", "uid-a", true), reference("b", "uid-b", false)), true, nil, ""},
		"ExactlyOneButTwo": {"one too many", owned(reference("b", "uid-b", false), reference("a", "uid-a", true)),
			expect.HaveOwnerReferences(reference("a", "uid-a", true)), false, []string{"uid-b"}, ""},
		"ExactlyButNoController": {"every field counts", owned(reference("a", "uid-a", false)),
			expect.HaveOwnerReferences(reference("a", "uid-a", true)), false,
			[]string{"Controller: true", "Controller: false"}, ""},
	})
}

func TestLifecycle(t *testing.T) {
	held := configMap(func(o *corev1.ConfigMap) { o.Finalizers = []string{"example.com/a", "example.com/b"} })
	now := metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	going := configMap(func(o *corev1.ConfigMap) { o.DeletionTimestamp = &now })
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "child")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "child", errors.New("no"))
	check(t, map[string]row{
		"Finalizer": {"it is there", held, expect.HaveFinalizer("example.com/b"), true, nil, ""},
		"OtherFinalizers": {"it is not", held, expect.HaveFinalizer("example.com/c"), false,
			[]string{"ConfigMap ns/child", "example.com/a", "example.com/b", "example.com/c"}, ""},
		"NoFinalizer": {"nothing is", configMap(), expect.HaveFinalizer("example.com/c"), false,
			[]string{"The finalizers of", "nil"}, ""},
		"Terminating": {"deletion has begun", going, expect.BeTerminating(), true,
			[]string{"The deletionTimestamp of ConfigMap ns/child", "2030-01-02"}, ""},
		"Staying": {"it has not", configMap(), expect.BeTerminating(), false,
			[]string{"nil"}, ""},
		"Gone": {"the API server knows nothing of it", error(notFound), expect.BeGone(), true,
			[]string{"not to find nothing"}, ""},
		"StillThere": {"the Get succeeded", error(nil), expect.BeGone(), false,
			[]string{"to find nothing (NotFound)"}, ""},
		"RefusedIsNotGone": {"a refusal proves nothing", error(forbidden), expect.BeGone(), false, []string{"forbidden"}, ""},
	})
}

func namespaceWith(conditions ...metav1.Condition) *unstructured.Unstructured {
	items := []any{}
	for _, c := range conditions {
		items = append(items, map[string]any{"type": c.Type, "status": string(c.Status), "reason": c.Reason,
			"message": c.Message})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "Thing", "metadata": map[string]any{"name": "t", "generation": int64(3)},
		"status": map[string]any{"conditions": items, "observedGeneration": int64(2)},
	}}
}

func TestStatus(t *testing.T) {
	typed := &corev1.Pod{Status: corev1.PodStatus{ObservedGeneration: 4, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "Fine"},
	}}}
	typed.Generation = 4
	thing := namespaceWith(
		metav1.Condition{Type: "Stalled", Status: metav1.ConditionFalse, Reason: "Going"},
		metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waiting", Message: "for a friend"})
	odd := &unstructured.Unstructured{Object: map[string]any{"kind": "Thing",
		"status": map[string]any{"conditions": "none", "observedGeneration": "one"}}}
	items := &unstructured.Unstructured{Object: map[string]any{"kind": "Thing",
		"status": map[string]any{"conditions": []any{"Ready"}}}}
	check(t, map[string]row{
		"Typed": {"a Go type", typed, expect.HaveCondition("Ready", metav1.ConditionTrue, "Fine"), true,
			[]string{"not to contain", "Ready=True (Fine)"}, ""},
		"Unstructured": {"any kind", thing, expect.HaveCondition("Ready", metav1.ConditionFalse), true, nil, ""},
		"OneOfReasons": {"either reason will do", thing,
			expect.HaveCondition("Ready", metav1.ConditionFalse, "Failed", "Waiting"), true, nil, ""},
		"OtherStatus": {"the status counts", thing, expect.HaveCondition("Ready", metav1.ConditionTrue), false,
			[]string{"Thing /t", "Ready=True", "Ready=False Waiting: for a friend"}, ""},
		"OtherReason": {"the reason counts", thing, expect.HaveCondition("Ready", metav1.ConditionFalse, "Failed",
			"Broken"), false, []string{"(Failed|Broken)"}, ""},
		"ReasonIsNoPattern": {"the whole reason, as it is", thing,
			expect.HaveCondition("Ready", metav1.ConditionFalse, "Wait...", "Wait"), false, nil, ""},
		"ReasonOfAnother": {"all of it in one condition", thing,
			expect.HaveCondition("Ready", metav1.ConditionFalse, "Going"), false, nil, ""},
		"Absent": {"no such condition", configMap(), expect.HaveCondition("Ready", metav1.ConditionTrue), false,
			[]string{"The conditions of ConfigMap ns/child"}, ""},
		"NotAList": {"a broken status is an error", odd, expect.HaveCondition("Ready", metav1.ConditionTrue), false, nil,
			"reading Thing /: "},
		"NotObjects": {"so are items that are no conditions", items, expect.HaveCondition("Ready", metav1.ConditionTrue),
			false, nil, "Conditions"},

		"Observed": {"the status is about the current spec", typed, expect.HaveObservedGeneration(), true,
			[]string{"Generation: 4", "ObservedGeneration: 4"}, ""},
		"Behind": {"it is about an older one", thing, expect.HaveObservedGeneration(), false,
			[]string{"Generation: 3", "ObservedGeneration: 2"}, ""},
		"NoStatus": {"there is none", configMap(), expect.HaveObservedGeneration(), false,
			[]string{"ObservedGeneration: nil"}, ""},
		"NotANumber": {"a broken status is an error", odd, expect.HaveObservedGeneration(), false, nil,
			"ObservedGeneration"},
		"NotAnObject": {"wrong type", 7, expect.HaveObservedGeneration(), false, nil, "got 7"},
	})
}

func TestEvents(t *testing.T) {
	event := func(kind, reason, note, uid string, series int32) eventsv1.Event {
		e := eventsv1.Event{Type: kind, Reason: reason, Note: note,
			Regarding: corev1.ObjectReference{Kind: "Thing", Namespace: "ns", Name: "t", UID: types.UID(uid)}}
		if series > 0 {
			e.Series = &eventsv1.EventSeries{Count: series}
		}
		return e
	}
	old := event("Normal", "Counted", "by the core group", "uid-c", 0)
	old.DeprecatedCount = 5
	all := []eventsv1.Event{
		event("Normal", "Updated", "the thing was updated", "uid-a", 0),
		event("Warning", "Failed", "failed to reconcile: no luck", "uid-a", 3),
		event("Warning", "Failed", "failed to reconcile: no luck", "uid-b", 0),
		old,
	}
	check(t, map[string]row{
		"Whole": {"every field", all,
			expect.ContainEvent(expect.Event{Type: "Normal", Reason: "Updated", Note: "^the thing was updated$",
				Regarding: "uid-a"}), true, []string{"not to contain", "/^the thing was updated$/"}, ""},
		"Part": {"a part of the note", all, expect.ContainEvent(expect.Event{Note: "no luck"}), true, nil, ""},
		"Any":  {"an empty description matches any event", all, expect.ContainEvent(expect.Event{}), true, nil, ""},
		"None": {"but not no event", []eventsv1.Event{}, expect.ContainEvent(expect.Event{}), false,
			[]string{"none", "found 0 times"}, ""},
		"OtherType": {"the type counts", all, expect.ContainEvent(expect.Event{Type: "Warning", Reason: "Updated"}),
			false, []string{"type Warning, reason Updated", "Normal Updated x1 regarding Thing ns/t: the thing was updated",
				"Warning Failed x3"}, ""},
		"OtherNote": {"the note counts", all, expect.ContainEvent(expect.Event{Reason: "Failed", Note: "^luck"}),
			false, nil, ""},
		"OtherObject": {"the object counts", all, expect.ContainEvent(expect.Event{Reason: "Updated", Regarding: "uid-b"}),
			false, []string{"regarding UID uid-b"}, ""},
		"SeriesCount": {"a series counts what it folded", all,
			expect.ContainEvent(expect.Event{Reason: "Failed", Regarding: "uid-a", Times: 3}), true, nil, ""},
		"SumOfEvents": {"several events add up", all, expect.ContainEvent(expect.Event{Reason: "Failed", Times: 4}), true,
			[]string{"seen 4 times"}, ""},
		"WrongCount": {"neither more nor fewer", all, expect.ContainEvent(expect.Event{Reason: "Failed", Times: 3}),
			false, []string{"found 4 times"}, ""},
		"DeprecatedOnes": {"counted by the core group", all, expect.ContainEvent(expect.Event{Reason: "Counted", Times: 5}),
			true, nil, ""},
		"BadPattern": {"a pattern that is none", all, expect.ContainEvent(expect.Event{Note: "("}), false, nil,
			"compiling the note"},
		"NotEvents": {"wrong type", []string{"event"}, expect.ContainEvent(expect.Event{}), false, nil, "got []string"},
	})
}
