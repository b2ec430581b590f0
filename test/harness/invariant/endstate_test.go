package invariant_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func data(name, value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{name: value} }
}

// listed has a list of named things, in this order.
func listed(names ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		var list []any
		for _, name := range names {
			list = append(list, map[string]any{"name": name, "port": int64(len(name))})
		}
		o.Object["list"] = list
	}
}

func TestEndState(t *testing.T) {
	run := func(objects ...*unstructured.Unstructured) *history.History {
		steps := []step{}
		for _, o := range objects {
			steps = append(steps, writes("a", o))
		}
		return tell(append(steps, rests("end"))...)
	}
	usual := func() []*history.History {
		return []*history.History{run(thing(held, ready), part("p", "p1", data("x", "1"))),
			run(thing(held, ready), part("p", "p1", data("x", "1")))}
	}
	lists := []*history.History{run(part("p", "p1", listed("a", "bb"))), run(part("p", "p1", listed("bb", "a")))}
	// port has a number and a boolean in place of texts.
	port := func(number int64, named bool) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.Object["port"] = map[string]any{"number": number, "named": named}
		}
	}
	ports := []*history.History{run(part("p", "p1", port(80, true))), run(part("p", "p1", port(80, true)))}
	varying := []*history.History{run(part("p", "p1", data("x", "1"))), run(part("p", "p1", data("x", "2")))}
	madeUp := []*history.History{run(part("p-c", "p1", generated), part("p-d", "p2", generated)),
		run(part("p-e", "p1", generated), part("p-f", "p2", generated))}
	by := func(requester string) *history.History {
		h := run(part("p", "p1", data("requester", requester)))
		h.Replicas = []history.Process{{Name: "manager-0"}, {Name: "manager-1"}}
		return h
	}
	const token, other = "JTI=5f8f6c00-94a8-4887-b455-e7669ee524d9", "JTI=8d44bebd-8e87-464e-a2cb-57cf233358b0"
	check(t, invariant.EndState, map[string]row{
		"OtherLeader": {history: by("manager-1"), references: []*history.History{by("manager-0"), by("manager-0")},
			want: invariant.Held},
		"OtherToken": {history: by(other), references: []*history.History{by(token), by(token)}, want: invariant.Held},
		"NoLeader": {history: by("manager-2"), references: []*history.History{by("manager-0"), by("manager-0")},
			want: invariant.Broken, says: []string{`data.requester is "manager-2", in clean runs "(a replica)"`}},
		"Same": {history: run(thing(held, ready), part("p", "p1", data("x", "1"))), references: usual(),
			want: invariant.Held, says: []string{"2 checked"}},
		"OtherUIDs": {history: run(thing(held, ready, named("t", "u9")), part("p", "p9", data("x", "1"), owned("u9"))),
			references: usual(), want: invariant.Held},
		"OtherTimes": {history: run(thing(held, says("True", "Fine", 1, "44")), part("p", "p1", data("x", "1"))),
			references: usual(), want: invariant.Held},
		"OtherPath": {history: run(thing(held), part("p", "p1", data("x", "2")), thing(held, ready),
			part("p", "p1", data("x", "1"))), references: usual(), want: invariant.Held},
		"WrongValue": {history: run(thing(held, ready), part("p", "p1", data("x", "2"))), references: usual(),
			want: invariant.Broken, says: []string{`configmaps ns/p (UID p1 at resourceVersion 103): data.x is "2", in clean runs "1"`, `at "end"`}},
		"NotThere": {history: run(thing(held, ready)), references: usual(), want: invariant.Broken,
			says: []string{"configmaps ns/p does not exist"}},
		"Rejected": {history: tell(writes("a", thing(held, ready)), rejected("step 1 make"), rests("end")),
			references: usual(), want: invariant.Inconclusive,
			says: []string{`at "end" the state is not comparable with clean runs: step 1 make of Thing t was rejected: denied`}},
		"RejectedAlways": {history: tell(rejected("step 1 make"), writes("a", thing()), rests("end")), want: invariant.Broken,
			references: []*history.History{tell(rejected("step 1 make"), rests("end")),
				tell(rejected("step 1 make"), rests("end"))}},
		"TooMuch": {history: run(thing(held, ready), part("p", "p1", data("x", "1")), part("q", "q1")),
			references: usual(), want: invariant.Broken,
			says: []string{"configmaps ns/q (UID q1 at resourceVersion 104) exists, and in no clean run"}},
		"Condition": {history: run(thing(held, says("False", "Down", 1, "01")), part("p", "p1", data("x", "1"))),
			references: usual(), want: invariant.Broken, says: []string{`status.conditions[Ready].status is "False"`}},
		"Behind": {history: run(thing(held, ready, generation(2)), part("p", "p1", data("x", "1"))),
			references: usual(), want: invariant.Broken, says: []string{`status.observedGeneration is "(current: false)"`}},
		"NoStatus": {history: run(thing(held), part("p", "p1", data("x", "1"))), references: usual(),
			want: invariant.Broken, says: []string{`status.conditions[Ready].type is absent`}},
		"OtherOwner": {history: run(thing(held, ready), part("p", "p1", data("x", "1"), owned("u5"))), references: usual(),
			want: invariant.Broken, says: []string{"ownerReferences[t].uid"}},
		"Leaving": {history: run(thing(held, ready, leaving), part("p", "p1", data("x", "1"))), references: usual(),
			want: invariant.Broken, says: []string{"metadata.deletionTimestamp"}},
		"ListOrder": {history: run(part("p", "p1", listed("bb", "a"))), references: lists, want: invariant.Held},
		"ListLonger": {history: run(part("p", "p1", listed("a", "bb", "c"))), references: lists, want: invariant.Broken,
			says: []string{"list[c].name"}},
		"ListTwice": {history: run(part("p", "p1", listed("a", "bb", "a"))), references: lists, want: invariant.Broken,
			says: []string{"list[2].name"}},
		"WrongNumber": {history: run(part("p", "p1", port(81, true))), references: ports, want: invariant.Broken,
			says: []string{`port.number is "81", in clean runs "80"`}},
		"WrongBoolean": {history: run(part("p", "p1", port(80, false))), references: ports, want: invariant.Broken,
			says: []string{`port.named is "false", in clean runs "true"`}},
		"Masked": {history: run(part("p", "p1", data("x", "3"))), references: varying, want: invariant.Held},
		"MaskedOnly": {history: run(part("p", "p1", data("y", "3"))), references: varying, want: invariant.Broken,
			says: []string{"data.y"}},
		"ComesAndGoes": {history: run(thing(held)),
			references: []*history.History{run(thing(held)), run(thing(held), part("p", "p1"))}, want: invariant.Held},
		"CameThisTime": {history: run(thing(held), part("p", "p2", data("x", "1"))),
			references: []*history.History{run(thing(held)), run(thing(held), part("p", "p1"))}, want: invariant.Held},
		"Generated": {history: run(part("p-a", "p1", generated), part("p-b", "p2", generated)), references: madeUp,
			want: invariant.Held},
		"GeneratedLess": {history: run(part("p-a", "p1", generated)), references: madeUp, want: invariant.Broken,
			says: []string{"configmaps ns/p-* #2 does not exist"}},
		"OthersObjects": {history: run(thing(held, ready), part("p", "p1", data("x", "1")), object("Lease", "x", "l9")),
			references: usual(), want: invariant.Held},
		"LaterChanges": {history: tell(writes("a", thing(held, ready)), writes("a", part("p", "p1", data("x", "1"))),
			rests("end"), writes("a", part("p", "p1", data("x", "2")))), references: usual(), want: invariant.Held},
		"OneReference": {history: run(thing(held)), references: usual()[:1], want: invariant.Inconclusive,
			says: []string{"1 clean runs"}},
		"NoReference": {history: run(thing(held)), want: invariant.Inconclusive, says: []string{"0 clean runs"}},
		"NoMark": {history: tell(writes("a", thing(held))), references: usual(), want: invariant.Inconclusive,
			says: []string{"nothing that this promise applies to"}},
		"NotWatched": {history: tell(writes("a", thing(held)), rests("end"), without(history.Watch)), references: usual(),
			want: invariant.Inconclusive, says: []string{"[watch]"}},
	})
}
