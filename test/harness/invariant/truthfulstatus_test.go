package invariant_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// answeredAt is a status write that was answered at a second of the story's first minute.
func answeredAt(second int, o *unstructured.Unstructured) step {
	return changes(func(s *story) {
		writes("a", o).tell(s)
		s.Versions[len(s.Versions)-1].At = time.Date(2030, 1, 1, 0, 0, second, 0, time.UTC)
	})
}

// twice has the same condition again.
func twice(o *unstructured.Unstructured) {
	status := o.Object["status"].(map[string]any)
	list := status["conditions"].([]any)
	status["conditions"] = append(list, list[0])
}

// conditionOnly leaves what the condition itself has observed.
func conditionOnly(o *unstructured.Unstructured) {
	delete(o.Object["status"].(map[string]any), "observedGeneration")
}

func TestHonestStatus(t *testing.T) {
	down := says("False", "Down", 1, "01")
	step := func(before, after func(*unstructured.Unstructured), second int) *history.History {
		return tell(writes("alice", thing()), answeredAt(1, thing(before)), answeredAt(second, thing(after)))
	}
	check(t, invariant.TruthfulStatus, map[string]row{
		"Honest": {history: step(down, says("True", "Fine", 1, "09"), 9), want: invariant.Held,
			says: []string{"3 checked"}},
		"OnlyReason": {history: step(down, says("False", "Other", 1, "01"), 9), want: invariant.Held},
		"Appears":    {history: tell(writes("a", thing()), writes("a", thing(ready))), want: invariant.Held},
		"Behind": {history: tell(writes("a", thing(ready)), writes("alice", thing(ready, generation(2)))),
			want: invariant.Held},
		"SameSecond": {history: step(down, says("True", "Fine", 1, "01"), 2), want: invariant.Held},
		"TimeKept": {history: step(down, says("True", "Fine", 1, "01"), 9), want: invariant.Broken,
			says: []string{"things.example.com ns/t (UID u1): Ready became True at resourceVersion 104, 8s after"}},
		"TimeBack": {history: step(says("False", "Down", 1, "05"), says("True", "Fine", 1, "01"), 9),
			want: invariant.Broken, says: []string{"went back from"}},
		"TimeMoved": {history: step(down, says("False", "Down", 1, "09"), 9), want: invariant.Broken,
			says: []string{"lastTransitionTime moved", "False at resourceVersion 104 as at resourceVersion 103"}},
		"NoTime": {history: step(down, says("True", "Fine", 1, "xx"), 9), want: invariant.Broken,
			says: []string{"without a lastTransitionTime"}},
		"WhenIsUnknown": {history: tell(answeredAt(1, thing(down)), answeredAt(1, thing(says("True", "Fine", 1, "01"))),
			changes(func(s *story) { s.Versions[2].At = time.Time{} })), want: invariant.Inconclusive,
			says: []string{"not recorded"}},
		"FromTheFuture": {history: tell(writes("a", thing(says("True", "Fine", 2, "01")))), want: invariant.Broken,
			says: []string{"its status is about generation 2, and it is at 1", "Ready is about generation 2"}},
		"GoesBack": {history: step(says("True", "Fine", 2, "01"), says("True", "Fine", 1, "01"), 2),
			want: invariant.Broken, says: []string{"observedGeneration went back from 2 at resourceVersion 103 to 1 at resourceVersion 104"}},
		"ConditionBack": {history: tell(writes("a", thing(says("True", "Fine", 2, "01"), generation(2), conditionOnly)),
			writes("a", thing(says("True", "Fine", 1, "01"), generation(2), conditionOnly))), want: invariant.Broken,
			says: []string{"Ready went back from generation 2"}},
		"Twice": {history: tell(writes("a", thing(ready, twice))), want: invariant.Broken,
			says: []string{"the condition Ready twice"}},
		"Nonsense": {history: tell(writes("a", thing(says("Maybe", "Fine", 1, "01")))), want: invariant.Broken,
			says: []string{`status "Maybe"`}},
		"OtherKinds": {history: tell(writes("a", object("ConfigMap", "x", "x", says("Maybe", "Fine", 1, "01")))),
			want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
		"MaybeMore": {history: tell(answeredAt(1, thing(down)), asks("a", "patch", thing(), history.Unknown, 504),
			answeredAt(9, thing(says("True", "Fine", 1, "01"))), without(history.Watch)), want: invariant.Inconclusive,
			says: []string{"may be missing: patch of things.example.com ns/t by replica a"}},
		"NoMore": {history: tell(answeredAt(1, thing(down)), answeredAt(9, thing(says("True", "Fine", 1, "01"))),
			asks("a", "patch", thing(), history.Unknown, 504), without(history.Watch)), want: invariant.Broken},
		"OthersMaybe": {history: tell(answeredAt(1, thing(down)), asks("a", "patch", thing(named("s", "u2")), history.Unknown,
			504), asks("a", "get", thing(), history.Read, 200), answeredAt(9, thing(says("True", "Fine", 1, "09"))),
			without(history.Watch)), want: invariant.Held},
		"OneMoreSeen": {history: tell(answeredAt(1, thing(down)), asks("a", "patch", thing(), history.Unknown, 504),
			answeredAt(9, thing(says("True", "Fine", 1, "01")))), want: invariant.Broken},
		"Reborn": {history: tell(writes("a", thing(says("True", "Fine", 3, "05"), generation(3))),
			ends("alice", thing()), writes("a", thing(named("t", "u2"), ready))), want: invariant.Held},
		"NotRecorded": {history: tell(writes("a", thing(ready, twice)), without(history.Audit, history.Watch)),
			want: invariant.Inconclusive, says: []string{"[audit watch]"}},
	})
}

func TestReadyOnlyAsDesired(t *testing.T) {
	run := func(child, parent *unstructured.Unstructured) *history.History {
		return tell(writes("alice", thing(held)), writes("a", child), writes("a", parent), rests("end"))
	}
	right := part("p", "p1")
	wrong := part("p", "p1", func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"replicas": "1"} })
	clean := []*history.History{run(right, thing(held, ready)), run(right, thing(held, ready))}
	check(t, invariant.TruthfulStatus, map[string]row{
		"AsDesired": {history: run(right, thing(held, ready)), references: clean, want: invariant.Held},
		"ReadyButWrong": {history: run(wrong, thing(held, ready)), references: clean, want: invariant.Broken,
			says: []string{"(UID u1) is Ready at resourceVersion 104", `at "end"`, "data.replicas"}},
		"ReadyAndGone": {history: tell(writes("alice", thing(held)), writes("a", thing(held, ready)), rests("end")),
			references: clean, want: invariant.Broken, says: []string{"configmaps ns/p does not exist"}},
		"ReadyAndTooFew": {history: tell(writes("alice", thing(held)), writes("a", right), writes("a", part("q", "q1")),
			writes("a", thing(held, ready)), rests("end")), references: clean, want: invariant.Broken,
			says: []string{"configmaps ns/q (UID q1", "in no clean run"}},
		"WrongAndSaysSo": {history: run(wrong, thing(held, says("False", "Down", 1, "01"))), references: clean,
			want: invariant.Held},
		"OldReady": {history: run(wrong, thing(held, ready, generation(2))), references: clean, want: invariant.Held},
		"OneReference": {history: run(wrong, thing(held, ready)), references: clean[:1], want: invariant.Inconclusive,
			says: []string{"1 clean runs"}},
		"OtherMark": {history: run(wrong, thing(held, ready)), references: []*history.History{tell(rests("start")),
			tell(rests("start"))}, want: invariant.Inconclusive, says: []string{`"end" is in 0 clean runs`}},
	})
}
