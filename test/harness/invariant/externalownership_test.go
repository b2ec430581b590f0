package invariant_test

import (
	"testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func TestOneExternal(t *testing.T) {
	mine := history.ExternalThing{Name: "bucket", Owner: "u1"}
	create := calls(history.Create, "bucket", "u1", history.Done)
	born := func(mutate ...step) []step {
		return append([]step{writes("alice", thing()), writes("a", thing(held)), create, writes("a", thing(held, ready))},
			mutate...)
	}
	gone := func(mutate ...step) []step { return append(born(ends("a", thing(held, ready, leaving))), mutate...) }
	check(t, invariant.ExternalOwnership, map[string]row{
		"OneForOne":   {history: tell(born(rests("end"), finds(mine))...), want: invariant.Held},
		"NoneForDead": {history: tell(gone(rests("end"), finds())...), want: invariant.Held},
		"OthersThings": {history: tell(born(rests("end"), finds(mine, history.ExternalThing{Name: "theirs"}))...),
			want: invariant.Held},
		"TwoForOne": {history: tell(born(rests("end"), finds(mine, history.ExternalThing{Name: "bucket2", Owner: "u1"}))...),
			want: invariant.Broken,
			says: []string{"things.example.com ns/t (UID u1, resourceVersion 104)", `["bucket" "bucket2"]`}},
		"Orphan": {history: tell(gone(rests("end"), finds(mine))...), want: invariant.Broken,
			says: []string{"has been gone since resourceVersion 105", `"bucket"`}},
		"KeptOnReason": {history: tell(append(born(writes("a", thing(held, kept)), ends("a", thing(held, kept, leaving))),
			rests("end"), finds(mine))...), want: invariant.Held},
		"Reborn": {history: tell(gone(writes("alice", thing(named("t", "u2"))), writes("a", thing(named("t", "u2"), held)),
			calls(history.Create, "bucket", "u2", history.Done), rests("end"),
			finds(mine, history.ExternalThing{Name: "bucket2", Owner: "u2"}))...), want: invariant.Broken,
			says: []string{"UID u1"}},
		"RebornClean": {history: tell(gone(writes("alice", thing(named("t", "u2"))),
			writes("a", thing(named("t", "u2"), held)), calls(history.Create, "bucket", "u2", history.Done), rests("end"),
			finds(history.ExternalThing{Name: "bucket", Owner: "u2"}))...), want: invariant.Held},
		"ReadyWithout": {history: tell(born(rests("end"), finds())...), want: invariant.Broken,
			says: []string{"is Ready", "has no external object"}},
		"NotReadyWithout": {history: tell(born(writes("a", thing(held, says("False", "Down", 1, "01"))), rests("end"),
			finds())...), want: invariant.Held},
		"ReadyForAnOldOne": {history: tell(born(writes("alice", thing(held, ready, generation(2))), rests("end"),
			finds())...), want: invariant.Held},
		"OnlyWatched": {history: tell(writes("alice", thing(unmanaged)), writes("a", thing(unmanaged, ready)), rests("end"),
			finds()), want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
		"WithoutMark": {history: tell(born(calls(history.Create, "x", "", history.Done), rests("end"), finds(mine))...),
			want: invariant.Broken, says: []string{"create of external x for UID (none)", "without an owner tag"}},
		"UsersOwn": {history: tell(born(calls(history.Create, "x", "", history.Done,
			func(c *history.Call) { c.Replica = "" }), rests("end"), finds(mine))...), want: invariant.Held},
		"Stranger": {history: tell(born(rests("end"), finds(mine, history.ExternalThing{Name: "x", Owner: "u77"}))...),
			want: invariant.Inconclusive, says: []string{"UID u77 that was not recorded"}},
		"NotBornYet": {history: tell(append([]step{rests("start"), finds()}, born(rests("end"), finds(mine))...)...),
			want: invariant.Held},
		"OrphanWhileBusy": {history: tell(gone(rests("end"), finds(mine),
			changes(func(s *story) { s.Checkpoints[0].Converged = false }))...), want: invariant.Inconclusive,
			says: []string{"not listed at any checkpoint"}},
		"NotListed": {history: tell(born(rests("end"), changes(func(s *story) { s.Checkpoints[0].Listed = false }))...),
			want: invariant.Inconclusive, says: []string{"not listed at any checkpoint"}},
		"NoMark": {history: tell(born()...), want: invariant.Inconclusive, says: []string{"not listed at any checkpoint"}},
		"NotRecorded": {history: tell(born(rests("end"), finds(mine), without(history.External))...),
			want: invariant.Inconclusive, says: []string{"[external]"}},
		"NotWatched": {history: tell(gone(rests("end"), finds(mine), without(history.Watch))...),
			want: invariant.Inconclusive, says: []string{"[watch]"}},
		"NothingOutside": {history: tell(born(rests("end"), finds(mine))...),
			change: func(o *invariant.Contract) { o.Kinds[0].External = false }, want: invariant.Inconclusive,
			says: []string{"nothing that this promise applies to"}},
	})
}
