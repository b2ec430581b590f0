package invariant_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// calledAs gives the history names of its own.
func calledAs(aliases map[string]string) step {
	return changes(func(s *story) { s.Aliases = aliases })
}

func generated(o *unstructured.Unstructured) { o.SetGenerateName("p-") }

// touching says that a fault has done something to an object.
func touching(o *unstructured.Unstructured) step {
	return changes(func(s *story) {
		s.Faults = append(s.Faults, history.FaultRecord{Name: "f", Happened: 1, Touched: []history.Key{key(o)}})
	})
}

func TestLifecycle(t *testing.T) {
	base := []step{writes("alice", thing()), writes("a", part("p", "p1")), rests("end")}
	with := func(more ...step) *history.History { return tell(append(append([]step{}, base...), more...)...) }
	clean := []*history.History{with(), with()}
	check(t, invariant.SingleLifecycle, map[string]row{
		"Rejected": {history: tell(rejected("step 1 make")),
			references: []*history.History{tell(writes("a", thing()))}, want: invariant.Inconclusive,
			says: []string{"step 1 make of Thing t was rejected"}},
		"AsEver": {history: with(), references: clean, want: invariant.Held, says: []string{"2 checked"}},
		"OtherUIDs": {history: tell(writes("alice", thing(named("t", "u5"))), writes("a", part("p", "p7"))),
			references: clean, want: invariant.Held},
		"WrittenOften": {history: with(writes("a", part("p", "p1")), writes("a", thing(ready))), references: clean,
			want: invariant.Held},
		"OneMore": {history: with(writes("a", part("q", "p2"))), references: clean, want: invariant.Broken,
			says: []string{"configmaps ns/q was created 1 times, in clean runs 0 times", "UID p2 at resourceVersion"}},
		"OneLess": {history: tell(writes("alice", thing())), references: clean, want: invariant.Broken,
			says: []string{"configmaps ns/p was created 0 times, in clean runs 1 times (never here)"}},
		"MadeAnew": {history: with(ends("a", part("p", "p1")), writes("a", part("p", "p2"))), references: clean,
			want: invariant.Broken, says: []string{"created 2 times", "deleted 1 times, in clean runs 0 times"}},
		"MadeUpTwice": {history: tell(writes("a", part("p-x", "p1", generated)),
			writes("a", part("p-y", "p2", generated))),
			references: []*history.History{tell(writes("a", part("p-z", "p1", generated)))}, want: invariant.Broken,
			says: []string{"configmaps ns/p-* was created 2 times"}},
		"MadeUpNames": {history: tell(writes("a", part("p-x", "p1", generated))),
			references: []*history.History{tell(writes("a", part("p-z", "p1", generated)))}, want: invariant.Held},
		"Aliases": {history: tell(writes("alice", thing(named("t-77", "u1"))),
			calledAs(map[string]string{"t-77": "t"})),
			references: []*history.History{tell(writes("alice", thing(named("t-99", "u1"))),
				calledAs(map[string]string{"t-99": "t"}))}, want: invariant.Held},
		"VariesByItself": {history: with(writes("a", part("q", "p2"))),
			references: []*history.History{with(), with(writes("a", part("q", "p2")))}, want: invariant.Held},
		"PassesInHaste": {history: with(writes("a", part("q", "p2")), ends("a", part("q", "p2")), rests("later"), hasty()),
			references: []*history.History{with(rests("later"), hasty()), with(rests("later"), hasty())}, want: invariant.Held},
		"PassesWithoutHaste": {history: with(writes("a", part("q", "p2")), ends("a", part("q", "p2")), rests("later")),
			references: []*history.History{with(rests("later")), with(rests("later"))}, want: invariant.Broken,
			says: []string{"configmaps ns/q was created 1 times, in clean runs 0 times"}},
		"RestedBeforeHaste": {
			history:    with(writes("a", part("q", "p2")), rests("there"), ends("a", part("q", "p2")), rests("later"), hasty()),
			references: []*history.History{with(rests("there"), rests("later"), hasty()), with(rests("there"), rests("later"), hasty())},
			want:       invariant.Broken, says: []string{"configmaps ns/q was created 1 times, in clean runs 0 times"}},
		"VariesMore": {history: with(writes("a", part("q", "p2")), ends("a", part("q", "p2")),
			writes("a", part("q", "p3"))), references: []*history.History{with(), with(writes("a", part("q", "p2")))},
			want: invariant.Broken, says: []string{"created 2 times, in clean runs 0 to 1 times"}},
		"OthersObjects": {history: with(writes("alice", object("Lease", "mine", "l9"))), references: clean,
			want: invariant.Held},
		"NoReference": {history: with(), want: invariant.Inconclusive, says: []string{"no clean run"}},
		"BlindReference": {history: with(), references: []*history.History{with(without(history.Watch))},
			want: invariant.Inconclusive, says: []string{"no clean run"}},
		"NotWatched": {history: with(writes("a", part("q", "p2")), without(history.Watch)), references: clean,
			want: invariant.Inconclusive, says: []string{"[watch]"}},
		"MadeAnewAfterAFault": {history: with(ends("alice", part("p", "p1")), writes("a", part("p", "p2")),
			touching(part("p", "p1"))), references: clean, want: invariant.Held},
		"MadeAnewAfterAnother": {history: with(ends("a", part("p", "p1")), writes("a", part("p", "p2")), touching(thing())),
			references: clean, want: invariant.Broken, says: []string{"created 2 times"}},
		"WhatWasInIt": {history: with(ends("a", part("p", "p1")), writes("a", part("p", "p2")), touching(room("ns", "n1"))),
			references: clean, want: invariant.Inconclusive},
		"NothingThere": {history: tell(), references: []*history.History{tell()}, want: invariant.Inconclusive},
	})
}
