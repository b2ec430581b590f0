package invariant_test

import (
	"testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func lost(c *history.Call)       { c.Outcome, c.Delivered = history.Lost, false }
func unheard(c *history.Call)    { c.Delivered = false }
func overlaps(c *history.Call)   { c.To = 0 }
func fromBefore(c *history.Call) { c.From -= 2 }

// life is a Thing from its birth to its end, made and tidied up by the book.
func life() []step {
	return []step{
		writes("alice", thing()), writes("a", thing(held)), calls(history.Create, "bucket", "u1", history.Done),
		writes("a", part("p", "p1")), writes("a", room("r", "r1")), writes("a", thing(held, ready)), rests("made"),
		writes("alice", thing(held, ready, leaving)), ends("a", room("r", "r1")),
		calls(history.Delete, "bucket", "u1", history.Done),
		ends("a", thing(held, ready, leaving)), ends("gc", part("p", "p1")), rests("gone"),
	}
}

// lifeBut replaces steps of a life by others.
func lifeBut(from, to int, steps ...step) *history.History {
	all := life()
	return tell(append(append(append([]step{}, all[:from]...), steps...), all[to:]...)...)
}

func TestFinalizerOrder(t *testing.T) {
	create := calls(history.Create, "bucket", "u1", history.Done)
	remove := calls(history.Delete, "bucket", "u1", history.Done)
	check(t, invariant.FinalizerOrder, map[string]row{
		"ByTheBook": {history: lifeBut(0, 0), want: invariant.Held},
		"NothingMade": {history: tell(writes("alice", thing()), writes("a", thing(held)), rests("end")),
			want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
		"CreateFirst": {history: lifeBut(1, 3, create, writes("a", thing(held))), want: invariant.Broken,
			says: []string{"things.example.com ns/t (UID u1)",
				"before the finalizer example.com/tidy was stored at resourceVersion"}},
		"ChildFirst": {history: lifeBut(1, 4, writes("a", part("p", "p1")), writes("a", thing(held)), create),
			want: invariant.Broken, says: []string{"configmaps ns/p by replica a"}},
		"RoomFirst": {history: lifeBut(1, 5, writes("a", room("r", "r1")), writes("a", thing(held)), create,
			writes("a", part("p", "p1"))), want: invariant.Broken, says: []string{"namespaces r by replica a"}},
		"NeverHeld": {history: tell(writes("alice", thing()), create, rests("end")), want: invariant.Broken,
			says: []string{"was never stored"}},
		"CreateRefused": {history: lifeBut(1, 3, calls(history.Create, "bucket", "u1", history.Failed),
			writes("a", thing(held)), create), want: invariant.Held},
		"CreateMaybe": {history: lifeBut(2, 3, calls(history.Create, "bucket", "u1", history.Done, fromBefore)),
			want: invariant.Inconclusive, says: []string{"does not show whether the finalizer was stored before, at resourceVersion 103"}},
		"CopiedByUser": {history: lifeBut(1, 2, writes("alice", room("copy", "r9")), writes("a", thing(held)),
			ends("alice", room("copy", "r9"))), want: invariant.Held},
		"NotConfirmed": {history: lifeBut(9, 10), want: invariant.Broken,
			says: []string{"without an answer that external bucket does not exist"}},
		"OnlyAccepted": {history: lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Accepted)),
			want: invariant.Broken, says: []string{"accepted removal is no proof"}},
		"AcceptedAndGone": {history: lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Accepted),
			calls(history.Get, "bucket", "u1", history.Absent)), want: invariant.Held},
		"AnswerLost": {history: lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Done, unheard)),
			want: invariant.Broken},
		"RemovalFailed": {history: lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Failed)),
			want: invariant.Broken, lacks: "accepted"},
		"EndMaybeBefore": {history: lifeBut(10, 11, writes("a", part("q", "p2")),
			ends("a", thing(held, leaving), undated(2))), want: invariant.Inconclusive,
			says: []string{"configmaps ns/q", "whether the finalizer was removed before"}},
		"RoomMaybeGone": {history: lifeBut(8, 11, remove, ends("a", room("r", "r1")),
			ends("a", thing(held, leaving), undated(2))), want: invariant.Inconclusive,
			says: []string{"whether namespaces r still existed"}},
		"CreatedAgain": {history: lifeBut(9, 10, remove, create), want: invariant.Broken,
			says: []string{"external bucket"}},
		"MaybeCreated": {history: lifeBut(2, 10, calls(history.Create, "bucket", "u1", history.Done, lost),
			writes("alice", thing(held, leaving))), want: invariant.Broken, says: []string{"bucket does not exist"}},
		"MaybeAndLooked": {history: lifeBut(2, 10, calls(history.Create, "bucket", "u1", history.Done, lost),
			writes("alice", thing(held, leaving)), calls(history.Get, "bucket", "u1", history.Absent)), want: invariant.Held},
		"RemovedLater": {history: lifeBut(9, 11, ends("a", thing(held, leaving)), remove), want: invariant.Broken},
		"RemovedMaybe": {history: lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Done, overlaps)),
			want: invariant.Inconclusive, says: []string{"the history does not show"}},
		"RoomStillThere": {history: lifeBut(8, 9), want: invariant.Broken,
			says: []string{"while namespaces r (UID r1) still existed"}},
		"RoomGoneLater": {history: lifeBut(8, 11, remove, ends("a", thing(held, leaving)), ends("a", room("r", "r1"))),
			want: invariant.Broken, says: []string{"still existed"}},
		"KeptOnPurpose": {history: lifeBut(7, 11, writes("alice", thing(held, kept, leaving)),
			ends("a", thing(held, kept, leaving))), want: invariant.Held},
		"KeptByCascade": {history: lifeBut(7, 11, writes("alice", thing(held, orphaning, leaving)),
			ends("a", thing(held, orphaning, leaving))), want: invariant.Held},
		"TakenByForce": {history: lifeBut(8, 11, ends("alice", thing(held, leaving))), want: invariant.Held},
		"HeldByOthersToo": {history: lifeBut(10, 11, writes("a", thing(heldByOthers, leaving)),
			ends("other", thing(heldByOthers, leaving))), want: invariant.Held},
		"OthersTooEarly": {history: lifeBut(9, 11, writes("a", thing(heldByOthers, leaving)), remove,
			ends("other", thing(heldByOthers, leaving))), want: invariant.Broken, says: []string{"without an answer"}},
		"MadeAfterwards": {history: lifeBut(11, 11, writes("a", part("q", "p2"))), want: invariant.Broken,
			says: []string{"configmaps ns/q", "after the finalizer example.com/tidy was removed at resourceVersion"}},
		"CreateAfterEnd": {history: lifeBut(11, 11, create), want: invariant.Broken,
			says: []string{"create of external bucket"}},
		"StrippedAlive": {history: lifeBut(6, 6, writes("alice", thing(ready)), writes("a", part("q", "p2")),
			writes("a", thing(held, ready))), want: invariant.Held},
		"Stuck": {history: tell(append(life()[:8], rests("end"))...), want: invariant.Broken,
			says: []string{"was still there at \"end\""}},
		"StuckInDoubt": {history: tell(life()[:8]...), want: invariant.Inconclusive,
			says: []string{"without a time limit"}},
		"WaitsForPerson": {history: tell(append(life()[:8],
			writes("a", thing(held, leaving, says("False", "NeedsYou", 1, "06"))), rests("end"))...), want: invariant.Held},
		"OthersHold": {history: tell(append(life()[:10], writes("a", thing(heldByOthers, leaving)), rests("end"))...),
			want: invariant.Held},
		"NoS3": {history: lifeBut(0, 0, without(history.External)), want: invariant.Inconclusive,
			says: []string{"none of [external] was recorded"}},
		"NoS3ButChildren": {history: lifeBut(8, 9, without(history.External)), want: invariant.Broken},
		"NothingRecorded": {history: lifeBut(0, 0, without(history.Audit, history.Watch)), want: invariant.Inconclusive},
	})
}
