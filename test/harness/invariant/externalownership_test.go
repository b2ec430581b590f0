// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func TestOneExternal(t *testing.T) {
	mine := history.ExternalThing{Name: "bucket", Owner: "u1"}
	create := calls(history.Create, "bucket", "u1", history.Done)
	born := func(more ...step) step {
		return all(writes("alice", thing()), writes("a", thing(held)), create, writes("a", thing(held, ready)), all(more...))
	}
	gone := func(more ...step) step { return born(ends("a", thing(held, ready, leaving)), all(more...)) }
	check(t, invariant.ExternalOwnership, table{
		"OneForOne":    wantHeld(play(born(rests("end"), finds(mine)))),
		"NoneForDead":  wantHeld(play(gone(rests("end"), finds()))),
		"OthersThings": wantHeld(play(born(rests("end"), finds(mine, history.ExternalThing{Name: "theirs"})))),
		"TwoForOne": wantBroken(play(born(rests("end"),
			finds(mine, history.ExternalThing{Name: "bucket2", Owner: "u1"}))),
			"things.example.com ns/t (UID u1, resourceVersion 104)", `["bucket" "bucket2"]`),
		"Orphan": wantBroken(play(gone(rests("end"), finds(mine))), "has been gone since resourceVersion 105",
			`"bucket"`),
		"KeptOnReason": wantHeld(play(born(writes("a", thing(held, kept)), ends("a", thing(held, kept, leaving)),
			rests("end"), finds(mine)))),
		"Reborn": wantBroken(play(gone(writes("alice", thing(named("t", "u2"))), writes("a", thing(named("t", "u2"), held)),
			calls(history.Create, "bucket", "u2", history.Done), rests("end"),
			finds(mine, history.ExternalThing{Name: "bucket2", Owner: "u2"}))), "UID u1"),
		"RebornClean": wantHeld(play(gone(writes("alice", thing(named("t", "u2"))),
			writes("a", thing(named("t", "u2"), held)), calls(history.Create, "bucket", "u2", history.Done), rests("end"),
			finds(history.ExternalThing{Name: "bucket", Owner: "u2"})))),
		"ReadyWithout": wantBroken(play(born(rests("end"), finds())), "is Ready", "has no external object"),
		"NotReadyWithout": wantHeld(play(born(writes("a", thing(held, says("False", "Down", 1, "01"))), rests("end"),
			finds()))),
		"ReadyForAnOldOne": wantHeld(play(born(writes("alice", thing(held, ready, generation(2))), rests("end"),
			finds()))),
		"OnlyWatched": wantInconclusive(play(writes("alice", thing(unmanaged)), writes("a", thing(unmanaged, ready)),
			rests("end"), finds()), "nothing that this promise applies to"),
		"WithoutMark": wantBroken(play(born(calls(history.Create, "x", "", history.Done), rests("end"), finds(mine))),
			"create of external x for UID (none)", "without an owner tag"),
		"UsersOwn": wantHeld(play(born(calls(history.Create, "x", "", history.Done,
			func(c *history.Call) { c.Replica = "" }), rests("end"), finds(mine)))),
		"Stranger": wantInconclusive(play(born(rests("end"),
			finds(mine, history.ExternalThing{Name: "x", Owner: "u77"}))), "UID u77 that was not recorded"),
		"NotBornYet": wantHeld(play(rests("start"), finds(), born(rests("end"), finds(mine)))),
		"OrphanWhileBusy": wantInconclusive(play(gone(rests("end"), finds(mine),
			changes(func(s *script) { s.Checkpoints[0].Converged = false }))), "not listed at any checkpoint"),
		"NotListed": wantInconclusive(play(born(rests("end"),
			changes(func(s *script) { s.Checkpoints[0].Listed = false }))), "not listed at any checkpoint"),
		"NoMark": wantInconclusive(play(born()), "not listed at any checkpoint"),
		"NothingOutside": wantInconclusive(play(born(rests("end"), finds(mine))),
			"nothing that this promise applies to").under(func(o *invariant.Contract) { o.Kinds[0].External = false }),
	})
}
