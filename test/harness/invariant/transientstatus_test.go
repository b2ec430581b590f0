// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// withStalled adds the condition Stalled.
func withStalled(status string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		of := o.Object["status"].(map[string]any)
		of["conditions"] = append(of["conditions"].([]any),
			map[string]any{"type": "Stalled", "status": status, "lastTransitionTime": "2030-01-01T00:00:01Z"})
	}
}

// about is the generation that the status, but not its condition, is about.
func about(generation int64) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.Object["status"].(map[string]any)["observedGeneration"] = generation
	}
}

func TestStatusAgreesWithItself(t *testing.T) {
	check(t, invariant.TruthfulStatus, table{
		"Agrees": wantHeld(play(writes("a", thing(ready, withStalled("False"))))),
		"OtherSpec": wantBroken(play(writes("a", thing(generation(2), ready, about(2)))),
			"Ready is True about generation 1 in a status about generation 2"),
		"OtherSpecDown": wantHeld(play(writes("a", thing(generation(2), says("False", "Down", 1, "01"), about(2))))),
		"ReadyAndStalled": wantBroken(play(writes("a", thing(ready, withStalled("True")))),
			"Ready and Stalled are both True"),
		"DownAndStalled": wantHeld(play(writes("a", thing(says("False", "Down", 1, "01"), withStalled("True"))))),
	})
}

func TestReadyDoesNotFlip(t *testing.T) {
	up, down := says("True", "Fine", 1, "01"), says("False", "Down", 1, "01")
	run := func(between ...step) *history.History {
		return play(writes("alice", thing()), writes("a", thing(up)), writes("a", thing(down)), all(between...),
			writes("a", thing(up)))
	}
	const flips = "Ready was True at resourceVersion 103, not at resourceVersion 104, and True again"
	other := object("ConfigMap", "c", "c1", func(o *unstructured.Unstructured) { o.SetNamespace("ns") })
	check(t, invariant.TruthfulStatus, table{
		"Flips":       wantBroken(run(), flips),
		"OwnWrites":   wantBroken(run(writes("a", part("p", "p1"))), flips),
		"Longer":      wantBroken(run(writes("a", thing(down)), writes("a", thing(down))), flips),
		"OthersWrote": wantHeld(run(writes("alice", other))),
		"SeenLate": wantHeld(play(writes("a", thing(up)), rests("end"), writes("alice", other),
			writes("a", thing(up, held)), writes("a", thing(down)), writes("a", thing(up)))),
		"LongAgo": wantBroken(play(writes("a", thing(up)), writes("alice", other), rests("end"),
			writes("a", thing(up, held)), writes("a", thing(down)), writes("a", thing(up)))),
		"OthersRefused": wantBroken(run(asks("alice", "patch", other, history.Refused, 403))),
		"CallFailed":    wantHeld(run(calls(history.Get, "bucket", "u1", history.Failed))),
		"CallSucceeded": wantBroken(run(calls(history.Get, "bucket", "u1", history.Done))),
		"NewSpec": wantHeld(play(writes("a", thing(up)), writes("a", thing(down)),
			writes("alice", thing(generation(2), down)), writes("a", thing(generation(2), says("True", "Fine", 2, "01"))))),
		"OldSpec": wantHeld(play(writes("a", thing(up)), writes("alice", thing(generation(2), up)),
			writes("a", thing(generation(2), up)), writes("a", thing(generation(2), says("False", "Down", 2, "01"))),
			writes("a", thing(generation(2), says("True", "Fine", 2, "01"))))),
		"NotYet":    wantHeld(play(writes("a", thing(down)), writes("a", thing(up)))),
		"StaysDown": wantHeld(play(writes("a", thing(up)), writes("a", thing(down)))),
		"AfterAFault": wantHeld(play(changes(func(s *script) { s.Faults = []history.FaultRecord{{Name: "f", Happened: 1}} }),
			writes("a", thing(up)), writes("a", thing(down)), writes("a", thing(up)))),
	})
}

func TestBecomesReadyWhenChildrenAre(t *testing.T) {
	has := func(data string, ready string) *unstructured.Unstructured {
		return part("p", "p1", func(o *unstructured.Unstructured) {
			o.Object["data"], o.Object["status"] = map[string]any{"x": data}, map[string]any{"ready": ready, "seen": ready}
		})
	}
	settled := func(o *invariant.Contract) { o.Kinds[0].Children[0].Settled = []string{"status.ready"} }
	unready := says("False", "Down", 1, "01")
	run := func(steps ...step) *history.History {
		return play(writes("alice", thing(held, unready)), all(steps...), writes("a", has("1", "2")), rests("end"))
	}
	right := []step{writes("a", has("1", "2")), writes("a", thing(held, ready))}
	clean := pair(run(right...))
	const becomes = "things.example.com ns/t (UID u1) becomes Ready at resourceVersion"
	check(t, invariant.TruthfulStatus, table{
		"Right":    wantHeld(run(right...), "3 checked"),
		"NotThere": wantBroken(run(writes("a", thing(held, ready))), becomes, "when configmaps ns/p does not exist"),
		"Wrong": wantBroken(run(writes("a", has("0", "2")), writes("a", thing(held, ready))), becomes,
			`data.x "0" and not "1"`),
		"RollsOut": wantBroken(run(writes("a", has("1", "1")), writes("a", thing(held, ready))),
			`status.ready "1" and not "2"`).lacking("status.seen"),
		"NotSettled": wantHeld(run(writes("a", has("1", "1")), writes("a", thing(held, ready)))).under(asItIs),
		"StaysReady": wantHeld(run(append(right, writes("a", has("0", "0")), writes("a", thing(held, ready)))...)),
		"SomebodyElse": wantHeld(run(writes("a", has("1", "2")), writes("alice", has("0", "2")),
			writes("a", thing(held, ready)))),
		"TheClusterDid": wantBroken(run(writes("a", has("1", "2")), writes("system:other", has("0", "2")),
			writes("a", thing(held, ready)))),
		"OneReference": wantInconclusive(run(writes("a", thing(held, ready)))).against(clean[:1]...),
	}.against(clean...).under(settled))
}
