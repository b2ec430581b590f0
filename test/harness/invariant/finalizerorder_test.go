// SPDX-License-Identifier: Apache-2.0

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
	whole := life()
	return play(all(whole[:from]...), all(steps...), all(whole[to:]...))
}

func TestFinalizerOrder(t *testing.T) {
	create := calls(history.Create, "bucket", "u1", history.Done)
	remove := calls(history.Delete, "bucket", "u1", history.Done)
	check(t, invariant.FinalizerOrder, table{
		"ByTheBook": wantHeld(lifeBut(0, 0)),
		"NothingMade": wantInconclusive(play(writes("alice", thing()), writes("a", thing(held)), rests("end")),
			"nothing that this promise applies to"),
		"CreateFirst": wantBroken(lifeBut(1, 3, create, writes("a", thing(held))), "things.example.com ns/t (UID u1)",
			"before the finalizer example.com/tidy was stored at resourceVersion"),
		"ChildFirst": wantBroken(lifeBut(1, 4, writes("a", part("p", "p1")), writes("a", thing(held)), create),
			"configmaps ns/p by replica a"),
		"RoomFirst": wantBroken(lifeBut(1, 5, writes("a", room("r", "r1")), writes("a", thing(held)), create,
			writes("a", part("p", "p1"))), "namespaces r by replica a"),
		"NeverHeld": wantBroken(play(writes("alice", thing()), create, rests("end")), "was never stored"),
		"CreateRefused": wantHeld(lifeBut(1, 3, calls(history.Create, "bucket", "u1", history.Failed),
			writes("a", thing(held)), create)),
		"CreateMaybe": wantInconclusive(lifeBut(2, 3, calls(history.Create, "bucket", "u1", history.Done, fromBefore)),
			"does not show whether the finalizer was stored before, at resourceVersion 103"),
		"CopiedByUser": wantHeld(lifeBut(1, 2, writes("alice", room("copy", "r9")), writes("a", thing(held)),
			ends("alice", room("copy", "r9")))),
		"NotConfirmed": wantBroken(lifeBut(9, 10), "without an answer that external bucket does not exist"),
		"OnlyAccepted": wantBroken(lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Accepted)),
			"accepted removal is no proof"),
		"AcceptedAndGone": wantHeld(lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Accepted),
			calls(history.Get, "bucket", "u1", history.Absent))),
		"AnswerLost": wantBroken(lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Done, unheard))),
		"RemovalFailed": wantBroken(lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Failed))).
			lacking("accepted"),
		"EndMaybeBefore": wantInconclusive(lifeBut(10, 11, writes("a", part("q", "p2")),
			ends("a", thing(held, leaving), undated(2))), "configmaps ns/q", "whether the finalizer was removed before"),
		"RoomMaybeGone": wantInconclusive(lifeBut(8, 11, remove, ends("a", room("r", "r1")),
			ends("a", thing(held, leaving), undated(2))), "whether namespaces r still existed"),
		"CreatedAgain": wantBroken(lifeBut(9, 10, remove, create), "external bucket"),
		"MaybeCreated": wantBroken(lifeBut(2, 10, calls(history.Create, "bucket", "u1", history.Done, lost),
			writes("alice", thing(held, leaving))), "bucket does not exist"),
		"MaybeAndLooked": wantHeld(lifeBut(2, 10, calls(history.Create, "bucket", "u1", history.Done, lost),
			writes("alice", thing(held, leaving)), calls(history.Get, "bucket", "u1", history.Absent))),
		"RemovedLater": wantBroken(lifeBut(9, 11, ends("a", thing(held, leaving)), remove)),
		"RemovedMaybe": wantInconclusive(lifeBut(9, 10, calls(history.Delete, "bucket", "u1", history.Done, overlaps)),
			"the history does not show"),
		"RoomStillThere": wantBroken(lifeBut(8, 9), "while namespaces r (UID r1) still existed"),
		"RoomGoneLater": wantBroken(lifeBut(8, 11, remove, ends("a", thing(held, leaving)), ends("a", room("r", "r1"))),
			"still existed"),
		"KeptOnPurpose": wantHeld(lifeBut(7, 11, writes("alice", thing(held, kept, leaving)),
			ends("a", thing(held, kept, leaving)))),
		"KeptByCascade": wantHeld(lifeBut(7, 11, writes("alice", thing(held, orphaning, leaving)),
			ends("a", thing(held, orphaning, leaving)))),
		"TakenByForce": wantHeld(lifeBut(8, 11, ends("alice", thing(held, leaving)))),
		"HeldByOthersToo": wantHeld(lifeBut(10, 11, writes("a", thing(heldByOthers, leaving)),
			ends("other", thing(heldByOthers, leaving)))),
		"OthersTooEarly": wantBroken(lifeBut(9, 11, writes("a", thing(heldByOthers, leaving)), remove,
			ends("other", thing(heldByOthers, leaving))), "without an answer"),
		"MadeAfterwards": wantBroken(lifeBut(11, 11, writes("a", part("q", "p2"))), "configmaps ns/q",
			"after the finalizer example.com/tidy was removed at resourceVersion"),
		"CreateAfterEnd": wantBroken(lifeBut(11, 11, create), "create of external bucket"),
		"StrippedAlive": wantHeld(lifeBut(6, 6, writes("alice", thing(ready)), writes("a", part("q", "p2")),
			writes("a", thing(held, ready)))),
		"Stuck":        wantBroken(play(all(life()[:8]...), rests("end")), "was still there at \"end\""),
		"StuckInDoubt": wantInconclusive(play(life()[:8]...), "without a time limit"),
		"WaitsForPerson": wantHeld(play(append(life()[:8],
			writes("a", thing(held, leaving, says("False", "NeedsYou", 1, "06"))), rests("end"))...)),
		"OthersHold":      wantHeld(play(append(life()[:10], writes("a", thing(heldByOthers, leaving)), rests("end"))...)),
		"NoS3":            wantInconclusive(lifeBut(0, 0, without(history.External)), "none of [external] was recorded"),
		"NoS3ButChildren": wantBroken(lifeBut(8, 9, without(history.External))),
	})
}
