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
	check(t, invariant.TruthfulStatus, map[string]row{
		"Agrees": {history: tell(writes("a", thing(ready, withStalled("False")))), want: invariant.Held},
		"OtherSpec": {history: tell(writes("a", thing(generation(2), ready, about(2)))), want: invariant.Broken,
			says: []string{"Ready is True about generation 1 in a status about generation 2"}},
		"OtherSpecDown": {history: tell(writes("a", thing(generation(2), says("False", "Down", 1, "01"), about(2)))),
			want: invariant.Held},
		"ReadyAndStalled": {history: tell(writes("a", thing(ready, withStalled("True")))), want: invariant.Broken,
			says: []string{"Ready and Stalled are both True"}},
		"DownAndStalled": {history: tell(writes("a", thing(says("False", "Down", 1, "01"), withStalled("True")))),
			want: invariant.Held},
	})
}

func TestReadyDoesNotFlip(t *testing.T) {
	up, down := says("True", "Fine", 1, "01"), says("False", "Down", 1, "01")
	run := func(between ...step) *history.History {
		steps := append([]step{writes("alice", thing()), writes("a", thing(up)), writes("a", thing(down))}, between...)
		return tell(append(steps, writes("a", thing(up)))...)
	}
	const flips = "Ready was True at resourceVersion 103, not at resourceVersion 104, and True again"
	other := object("ConfigMap", "c", "c1", func(o *unstructured.Unstructured) { o.SetNamespace("ns") })
	check(t, invariant.TruthfulStatus, map[string]row{
		"Flips":     {history: run(), want: invariant.Broken, says: []string{flips}},
		"OwnWrites": {history: run(writes("a", part("p", "p1"))), want: invariant.Broken, says: []string{flips}},
		"Longer": {history: run(writes("a", thing(down)), writes("a", thing(down))), want: invariant.Broken,
			says: []string{flips}},
		"OthersWrote": {history: run(writes("alice", other)), want: invariant.Held},
		"SeenLate": {history: tell(writes("a", thing(up)), rests("end"), writes("alice", other),
			writes("a", thing(up, held)), writes("a", thing(down)), writes("a", thing(up))), want: invariant.Held},
		"LongAgo": {history: tell(writes("a", thing(up)), writes("alice", other), rests("end"),
			writes("a", thing(up, held)), writes("a", thing(down)), writes("a", thing(up))), want: invariant.Broken},
		"OthersRefused": {history: run(asks("alice", "patch", other, history.Refused, 403)), want: invariant.Broken},
		"CallFailed":    {history: run(calls(history.Get, "bucket", "u1", history.Failed)), want: invariant.Held},
		"CallSucceeded": {history: run(calls(history.Get, "bucket", "u1", history.Done)), want: invariant.Broken},
		"NewSpec": {history: tell(writes("a", thing(up)), writes("a", thing(down)),
			writes("alice", thing(generation(2), down)), writes("a", thing(generation(2), says("True", "Fine", 2, "01")))),
			want: invariant.Held},
		"OldSpec": {history: tell(writes("a", thing(up)), writes("alice", thing(generation(2), up)),
			writes("a", thing(generation(2), up)), writes("a", thing(generation(2), says("False", "Down", 2, "01"))),
			writes("a", thing(generation(2), says("True", "Fine", 2, "01")))), want: invariant.Held},
		"NotYet":    {history: tell(writes("a", thing(down)), writes("a", thing(up))), want: invariant.Held},
		"StaysDown": {history: tell(writes("a", thing(up)), writes("a", thing(down))), want: invariant.Held},
		"AfterAFault": {history: tell(changes(func(s *story) { s.Faults = []history.FaultRecord{{Name: "f", Happened: 1}} }),
			writes("a", thing(up)), writes("a", thing(down)), writes("a", thing(up))), want: invariant.Held},
		"WritersUnknown": {history: tell(writes("a", thing(up)), writes("a", thing(down)), writes("a", thing(up)),
			without(history.Audit)), want: invariant.Held},
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
		return tell(append(append([]step{writes("alice", thing(held, unready))}, steps...), writes("a", has("1", "2")),
			rests("end"))...)
	}
	right := []step{writes("a", has("1", "2")), writes("a", thing(held, ready))}
	clean := []*history.History{run(right...), run(right...)}
	const becomes = "things.example.com ns/t (UID u1) becomes Ready at resourceVersion"
	check(t, invariant.TruthfulStatus, map[string]row{
		"Right": {history: run(right...), references: clean, change: settled, want: invariant.Held,
			says: []string{"3 checked"}},
		"NotThere": {history: run(writes("a", thing(held, ready))), references: clean, change: settled,
			want: invariant.Broken, says: []string{becomes, "when configmaps ns/p does not exist"}},
		"Wrong": {history: run(writes("a", has("0", "2")), writes("a", thing(held, ready))), references: clean,
			change: settled, want: invariant.Broken, says: []string{becomes, `data.x "0" and not "1"`}},
		"RollsOut": {history: run(writes("a", has("1", "1")), writes("a", thing(held, ready))), references: clean,
			change: settled, want: invariant.Broken, says: []string{`status.ready "1" and not "2"`}, lacks: "status.seen"},
		"NotSettled": {history: run(writes("a", has("1", "1")), writes("a", thing(held, ready))), references: clean,
			want: invariant.Held},
		"StaysReady": {history: run(append(right, writes("a", has("0", "0")), writes("a", thing(held, ready)))...),
			references: clean, change: settled, want: invariant.Held},
		"SomebodyElse": {history: run(writes("a", has("1", "2")), writes("alice", has("0", "2")),
			writes("a", thing(held, ready))), references: clean, change: settled, want: invariant.Held},
		"TheClusterDid": {history: run(writes("a", has("1", "2")), writes("system:other", has("0", "2")),
			writes("a", thing(held, ready))), references: clean, change: settled, want: invariant.Broken},
		"OneReference": {history: run(writes("a", thing(held, ready))), references: clean[:1], change: settled,
			want: invariant.Inconclusive},
	})
}
