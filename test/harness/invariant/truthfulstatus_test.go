// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// answeredAt is a status write that was answered at a second of the script's first minute.
func answeredAt(at float64, o *unstructured.Unstructured) step {
	return changes(func(s *script) {
		writes("a", o).record(s)
		s.Versions[len(s.Versions)-1].At = second(at)
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

// timeless is a condition without a lastTransitionTime, as kinds without that field have it.
func timeless(status string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		says(status, "Fine", 1, "01")(o)
		list := o.Object["status"].(map[string]any)["conditions"].([]any)
		delete(list[0].(map[string]any), "lastTransitionTime")
	}
}

func TestHonestStatus(t *testing.T) {
	down := says("False", "Down", 1, "01")
	step := func(before, after func(*unstructured.Unstructured), at float64, more ...step) *history.History {
		return play(writes("alice", thing()), answeredAt(1, thing(before)), answeredAt(at, thing(after)), all(more...))
	}
	// late stores the True of the first second in the ninth.
	late := func(replica string, began, until float64) *history.History {
		h := step(down, says("True", "Fine", 1, "01"), 9, delayed(replica, began, until))
		h.Requests[len(h.Requests)-1].Received = second(9)
		return h
	}
	check(t, invariant.TruthfulStatus, table{
		"Late":           wantHeld(late("a", 2, 9)),
		"OfAnother":      wantBroken(late("b", 2, 9), "8s after"),
		"AfterTheFault":  wantBroken(late("a", 2, 5), "8s after"),
		"BeforeTheFault": wantBroken(late("a", 10, 15), "8s after"),
		"LateAndOld":     wantBroken(late("a", 5, 9), "8s after"),

		"Honest":     wantHeld(step(down, says("True", "Fine", 1, "09"), 9), "3 checked"),
		"OnlyReason": wantHeld(step(down, says("False", "Other", 1, "01"), 9)),
		"Appears":    wantHeld(play(writes("a", thing()), writes("a", thing(ready)))),
		"Behind":     wantHeld(play(writes("a", thing(ready)), writes("alice", thing(ready, generation(2))))),
		"SameSecond": wantHeld(step(down, says("True", "Fine", 1, "01"), 2)),
		"TimeKept": wantBroken(step(down, says("True", "Fine", 1, "01"), 9),
			"things.example.com ns/t (UID u1): Ready became True at resourceVersion 104, 8s after"),
		"TimeBack": wantBroken(step(says("False", "Down", 1, "05"), says("True", "Fine", 1, "01"), 9), "went back from"),
		"TimeMoved": wantBroken(step(down, says("False", "Down", 1, "09"), 9), "lastTransitionTime moved",
			"False at resourceVersion 104 as at resourceVersion 103"),
		"NoTimes":  wantHeld(step(timeless("False"), timeless("True"), 9)),
		"LostTime": wantBroken(step(down, timeless("True"), 9), "without a lastTransitionTime"),
		"NoTime":   wantBroken(step(down, says("True", "Fine", 1, "xx"), 9), "without a lastTransitionTime"),
		"WhenIsUnknown": wantInconclusive(play(answeredAt(1, thing(down)),
			answeredAt(1, thing(says("True", "Fine", 1, "01"))), changes(func(s *script) { s.Versions[2].At = time.Time{} })),
			"not recorded"),
		"FromTheFuture": wantBroken(play(writes("a", thing(says("True", "Fine", 2, "01")))),
			"its status is about generation 2, and it is at 1", "Ready is about generation 2"),
		"GoesBack": wantBroken(step(says("True", "Fine", 2, "01"), says("True", "Fine", 1, "01"), 2),
			"observedGeneration went back from 2 at resourceVersion 103 to 1 at resourceVersion 104"),
		"ConditionBack": wantBroken(play(writes("a", thing(says("True", "Fine", 2, "01"), generation(2), conditionOnly)),
			writes("a", thing(says("True", "Fine", 1, "01"), generation(2), conditionOnly))),
			"Ready went back from generation 2"),
		"Twice":    wantBroken(play(writes("a", thing(ready, twice))), "the condition Ready twice"),
		"Nonsense": wantBroken(play(writes("a", thing(says("Maybe", "Fine", 1, "01")))), `status "Maybe"`),
		"OtherKinds": wantInconclusive(play(writes("a", object("ConfigMap", "x", "x", says("Maybe", "Fine", 1, "01")))),
			"nothing that this promise applies to"),
		"Reborn": wantHeld(play(writes("a", thing(says("True", "Fine", 3, "05"), generation(3))), ends("alice", thing()),
			writes("a", thing(named("t", "u2"), ready)))),
	})
}

func TestReadyOnlyAsDesired(t *testing.T) {
	run := func(child, parent *unstructured.Unstructured) *history.History {
		return play(writes("alice", thing(held)), writes("a", child), writes("a", parent), rests("end"))
	}
	right := part("p", "p1")
	wrong := part("p", "p1", func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"replicas": "1"} })
	clean := pair(run(right, thing(held, ready)))
	first, second := thing(held, named("t-1", "u1")), thing(held, named("t-2", "u2"))
	// Two objects that share a name, as of a set: each has a part, and is Ready by itself.
	twins := func(middle ...step) *history.History {
		steps := append([]step{writes("alice", first), writes("alice", second)}, middle...)
		return play(append(steps, rests("end"),
			calledAs(map[string]string{"t-1": "t-*", "t-2": "t-*", "p-1": "p-*", "p-2": "p-*"}))...)
	}
	oneReady := writes("a", thing(held, ready, named("t-1", "u1")))
	otherReady := writes("a", thing(held, ready, named("t-2", "u2")))
	onePart, otherPart := writes("a", part("p-1", "p1")), writes("a", part("p-2", "p2", owned("u2")))
	both := twins(onePart, otherPart, oneReady, otherReady)
	check(t, invariant.TruthfulStatus, table{
		"TwinLater": wantHeld(twins(onePart, oneReady, otherPart, otherReady)).against(both, both),
		"TwinWithoutAPart": wantBroken(twins(onePart, oneReady, otherReady, otherPart),
			"configmaps ns/p-* does not exist").against(both, both),
		"AsDesired": wantHeld(run(right, thing(held, ready))),
		"ReadyButWrong": wantBroken(run(wrong, thing(held, ready)), "(UID u1) is Ready at resourceVersion 104", `at "end"`,
			"data.replicas"),
		"ReadyAndGone": wantBroken(play(writes("alice", thing(held)), writes("a", thing(held, ready)), rests("end")),
			"configmaps ns/p does not exist"),
		"ReadyAndTooFew": wantBroken(play(writes("alice", thing(held)), writes("a", right), writes("a", part("q", "q1")),
			writes("a", thing(held, ready)), rests("end")), "configmaps ns/q (UID q1", "in no clean run"),
		"WrongAndSaysSo": wantHeld(run(wrong, thing(held, says("False", "Down", 1, "01")))),
		"OldReady":       wantHeld(run(wrong, thing(held, ready, generation(2)))),
		"OneReference":   wantInconclusive(run(wrong, thing(held, ready)), "1 clean runs").against(clean[:1]...),
		"OtherMark": wantInconclusive(run(wrong, thing(held, ready)), `"end" is in 0 clean runs`).
			against(pair(play(rests("start")))...),
	}.against(clean...))
}
