// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// counted has a number in the status and one in the spec.
func counted(status, spec int64) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.Object["spec"] = map[string]any{"size": spec}
		o.Object["status"] = map[string]any{"restarts": status}
	}
}

func noted(message string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "reason": message, "message": message}}}
	}
}

// A clean run that does not get back to its earlier state shows a mistake without any fault.
func TestEndState_LikeAnEarlierCheckpoint(t *testing.T) {
	run := func(first, last []step) *history.History {
		return play(all(first...), rests("made"), all(last...), rests("restored"), like("made"))
	}
	of := func(o *unstructured.Unstructured) []step { return []step{writes("a", o)} }
	entry := func(mutate ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		return part("p", "p1", mutate...)
	}
	judged := func(first, last []step, want invariant.Result, says ...string) row {
		clean := run(first, first)
		if want == invariant.Held {
			clean = run(first, last)
		}
		return row{history: run(first, last), want: want, says: says}.against(clean, clean)
	}
	random := func(first, later string) *history.History {
		return run(of(entry(data("key", first))), of(entry(data("key", later))))
	}
	both := map[string]any{"database": "a", "note": "old"}
	check(t, invariant.EndState, table{
		"Again": judged(of(entry(data("x", "1"))), of(entry(data("x", "1"))), invariant.Held),
		"KeyLeft": judged(of(entry(data("database", "a"))),
			of(entry(func(o *unstructured.Unstructured) { o.Object["data"] = both })), invariant.Broken,
			`at "restored" configmaps ns/p`, `data.note is "old", and was absent, though all is desired as at "made"`),
		"Rejected": judged(of(entry(data("size", "1"))),
			append(of(entry(data("size", "2"))), rejected("step 5 shrink")), invariant.Inconclusive,
			`at "restored" the state is not comparable with "made": step 5 shrink`),
		"RejectedAsAllowed": judged(of(entry(data("size", "1"))),
			append(of(entry(data("size", "2"))), rejected("step 5 shrink"),
				changes(func(s *script) { s.Rejections[0].Allowed = true })), invariant.Held),
		"RejectedBefore": judged(append(of(entry(data("size", "1"))), rejected("step 1 make")),
			of(entry(data("size", "2"))), invariant.Broken, `data.size is "2", and was "1"`),
		"NotReachedBefore": wantInconclusive(
			run(of(entry()), append(of(part("q", "p2")), changes(func(s *script) { s.Checkpoints[0].Converged = false }))),
			`at "restored" the state is not comparable with "made", at which the desired state was not reached`).
			against(pair(run(of(entry()), of(part("q", "p2"))))...),
		"ObjectLeft": judged(of(entry()), of(part("q", "p2")), invariant.Broken,
			`configmaps ns/q`, `exists, and did not at "made"`),
		"ObjectGone": judged(of(entry()), []step{ends("a", entry())}, invariant.Broken,
			`at "restored" configmaps ns/p does not exist, as it did at "made"`),
		"Recounted": judged(of(entry(counted(1, 1))), of(entry(counted(2, 1))), invariant.Held),
		"CountedDown": judged(of(entry(counted(2, 1))), of(entry(counted(1, 1))), invariant.Broken,
			`status.restarts is "1", and was "2"`),
		"SizeKept": judged(of(entry(counted(1, 1))), of(entry(counted(1, 2))), invariant.Broken,
			`spec.size is "2", and was "1"`),
		"OtherReason": judged(of(thing(noted("Created"))), of(thing(noted("Updated"))), invariant.Held),
		"Random":      wantHeld(random("a", "b")).against(random("a", "b"), random("c", "d")),
	})
}
