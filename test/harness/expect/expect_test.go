// SPDX-License-Identifier: Apache-2.0

package expect_test

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
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
	actual  any
	matcher gomegatypes.GomegaMatcher
	matches bool
	says    []string // parts of the message; the negated one where the value matches
	fails   string   // part of the error, where the comparison itself is wrong
}

func matches(actual any, matcher gomegatypes.GomegaMatcher, says ...string) row {
	return row{actual: actual, matcher: matcher, matches: true, says: says}
}

func differs(actual any, matcher gomegatypes.GomegaMatcher, says ...string) row {
	return row{actual: actual, matcher: matcher, says: says}
}

func fails(actual any, matcher gomegatypes.GomegaMatcher, text string) row {
	return row{actual: actual, matcher: matcher, fails: text}
}

func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for reason, r := range rows {
		t.Run(reason, func(t *testing.T) {
			g := NewWithT(t)
			got, err := r.matcher.Match(r.actual)
			if r.fails != "" {
				g.Expect(err).To(MatchError(ContainSubstring(r.fails)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(r.matches))
			message := r.matcher.FailureMessage(r.actual)
			if r.matches {
				message = r.matcher.NegatedFailureMessage(r.actual)
			}
			for _, part := range r.says {
				g.Expect(message).To(ContainSubstring(part))
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
	byA, none := expect.BeControlledBy(a), expect.HaveOwnerReferences()
	controlsA, plainA, plainB := reference("a", "uid-a", true), reference("a", "uid-a", false), reference("b", "uid-b", false)
	check(t, map[string]row{
		"no references":                      differs(configMap(), byA, "The controllers of ConfigMap ns/child"),
		"one controller and it is the owner": matches(owned(controlsA), byA, "not to consist of"),
		"plain references do not disturb":    matches(owned(plainB, controlsA), byA),
		"a plain reference does not control": differs(owned(plainA), byA, "to consist of", "uid-a"),
		"by UID, not by name": differs(owned(reference("a", "uid-before", true)), byA, "ConfigMap ns/child", "uid-a",
			"uid-before"),
		"an object with two controllers is broken": differs(owned(reference("b", "uid-b", true), controlsA), byA, "uid-b"),
		"an owner without UID would match nothing for the wrong reason": fails(configMap(),
			expect.BeControlledBy(owner("a", "")), "has no UID"),
		"wrong type":                    fails("text", byA, `an object is needed, got "text"`),
		"nil of the right type":         fails((*corev1.ConfigMap)(nil), byA, "got (*v1.ConfigMap)(nil)"),
		"no references wanted or found": matches(configMap(), none),
		"one and none wanted":           differs(owned(controlsA), none, "The owner references of", "uid-a"),
		"the order means nothing":       matches(owned(plainB, controlsA), expect.HaveOwnerReferences(controlsA, plainB)),
		"two and one wanted":            differs(owned(plainB, controlsA), expect.HaveOwnerReferences(controlsA), "uid-b"),
		"every field counts": differs(owned(plainA), expect.HaveOwnerReferences(controlsA), "Controller: true",
			"Controller: false"),
	})
}

func TestLifecycle(t *testing.T) {
	held := configMap(func(o *corev1.ConfigMap) { o.Finalizers = []string{"example.com/a", "example.com/b"} })
	now := metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	going := configMap(func(o *corev1.ConfigMap) { o.DeletionTimestamp = &now })
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "child")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "child", errors.New("no"))
	check(t, map[string]row{
		"it is there": matches(held, expect.HaveFinalizer("example.com/b")),
		"it is not": differs(held, expect.HaveFinalizer("example.com/c"), "ConfigMap ns/child", "example.com/a",
			"example.com/b", "example.com/c"),
		"nothing is": differs(configMap(), expect.HaveFinalizer("example.com/c"), "The finalizers of", "nil"),
		"deletion has begun": matches(going, expect.BeTerminating(), "The deletionTimestamp of ConfigMap ns/child",
			"2030-01-02"),
		"it has not":                         differs(configMap(), expect.BeTerminating(), "nil"),
		"the API server knows nothing of it": matches(error(notFound), expect.BeGone(), "not to find nothing"),
		"the Get succeeded":                  differs(error(nil), expect.BeGone(), "to find nothing (NotFound)"),
		"a refusal proves nothing":           differs(error(forbidden), expect.BeGone(), "forbidden"),
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
	isReady := expect.HaveCondition("Ready", metav1.ConditionTrue)
	notReady := func(reasons ...string) gomegatypes.GomegaMatcher {
		return expect.HaveCondition("Ready", metav1.ConditionFalse, reasons...)
	}
	observed := expect.HaveObservedGeneration()
	check(t, map[string]row{
		"a Go type": matches(typed, expect.HaveCondition("Ready", metav1.ConditionTrue, "Fine"), "not to contain",
			"Ready=True (Fine)"),
		"any kind":                                 matches(thing, notReady()),
		"either reason will do":                    matches(thing, notReady("Failed", "Waiting")),
		"the status counts":                        differs(thing, isReady, "Thing /t", "Ready=True", "Ready=False Waiting: for a friend"),
		"the reason counts":                        differs(thing, notReady("Failed", "Broken"), "(Failed|Broken)"),
		"the whole reason, as it is":               differs(thing, notReady("Wait...", "Wait")),
		"all of it in one condition":               differs(thing, notReady("Going")),
		"no such condition":                        differs(configMap(), isReady, "The conditions of ConfigMap ns/child"),
		"conditions that are no list are an error": fails(odd, isReady, "reading Thing /: "),
		"so are items that are no conditions":      fails(items, isReady, "Conditions"),

		"the status is about the current spec": matches(typed, observed, "Generation: 4", "ObservedGeneration: 4"),
		"it is about an older one":             differs(thing, observed, "Generation: 3", "ObservedGeneration: 2"),
		"there is none":                        differs(configMap(), observed, "ObservedGeneration: nil"),
		"a broken status is an error":          fails(odd, observed, "ObservedGeneration"),
		"wrong type":                           fails(7, observed, "got 7"),
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
	has := expect.ContainEvent
	check(t, map[string]row{
		"every field": matches(all,
			has(expect.Event{Type: "Normal", Reason: "Updated", Note: "^the thing was updated$", Regarding: "uid-a"}),
			"not to contain", "/^the thing was updated$/"),
		"a part of the note":                     matches(all, has(expect.Event{Note: "no luck"})),
		"an empty description matches any event": matches(all, has(expect.Event{})),
		"but not no event":                       differs([]eventsv1.Event{}, has(expect.Event{}), "none", "found 0 times"),
		"the type counts": differs(all, has(expect.Event{Type: "Warning", Reason: "Updated"}),
			"type Warning, reason Updated", "Normal Updated x1 regarding Thing ns/t: the thing was updated", "Warning Failed x3"),
		"the note counts":                differs(all, has(expect.Event{Reason: "Failed", Note: "^luck"})),
		"the object counts":              differs(all, has(expect.Event{Reason: "Updated", Regarding: "uid-b"}), "regarding UID uid-b"),
		"a series counts what it folded": matches(all, has(expect.Event{Reason: "Failed", Regarding: "uid-a", Times: 3})),
		"several events add up":          matches(all, has(expect.Event{Reason: "Failed", Times: 4}), "seen 4 times"),
		"neither more nor fewer":         differs(all, has(expect.Event{Reason: "Failed", Times: 3}), "found 4 times"),
		"counted by the core group":      matches(all, has(expect.Event{Reason: "Counted", Times: 5})),
		"a pattern that is none":         fails(all, has(expect.Event{Note: "("}), "compiling the note"),
		"wrong type":                     fails([]string{"event"}, has(expect.Event{}), "actual of type <[]v1.Event>"),
	})
}
