// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// calledAs gives the history names of its own.
func calledAs(aliases map[string]string) step {
	return changes(func(s *script) { s.Aliases = aliases })
}

func generated(o *unstructured.Unstructured) { o.SetGenerateName("p-") }

// controlledBy gives an object a controller.
func controlledBy(version string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: version, Kind: "StatefulSet", Name: "s", UID: "s1",
			Controller: new(true)}})
	}
}

// touching records that a fault has changed an object.
func touching(o *unstructured.Unstructured) step {
	return changes(func(s *script) {
		s.Faults = append(s.Faults, history.FaultRecord{Name: "f", Happened: 1, Touched: []history.Key{key(o)}})
	})
}

func TestLifecycle(t *testing.T) {
	with := func(more ...step) *history.History {
		return play(writes("alice", thing()), writes("a", part("p", "p1")), rests("end"), all(more...))
	}
	clean := pair(with())
	ended, again := ends("a", part("p", "p1")), writes("a", part("p", "p2"))
	// The first clean run reports what all of them have.
	first := func(more ...step) *history.History {
		return with(all(more...), changes(func(s *script) { s.Began = s.now }))
	}
	anew, forUser := first(ended, again), first(ended, writes("alice", thing(ready)), again)
	inHaste := first(ended, again, rests("later"), hasty())
	withFault := first(ended, again, touching(thing(named("o", "u9"))))
	fromAnother := first(ends("a", part("q", "q1")), writes("a", part("q", "q2")))
	node := controlledBy("apps/v1")
	replaced := func(times int, node func(*unstructured.Unstructured)) *history.History {
		steps := []step{writes("a", part("n", "n0", node))}
		for i := range times {
			steps = append(steps, ends("a", part("n", fmt.Sprint("n", i), node)),
				writes("a", part("n", fmt.Sprint("n", i+1), node)))
		}
		return with(steps...)
	}
	check(t, invariant.SingleLifecycle, table{
		"ReplacedLess": wantHeld(replaced(1, node)).against(replaced(2, node), replaced(2, node)),
		"ReplacedMore": wantBroken(replaced(2, node), "created 3 times, in clean runs 2 times").
			against(replaced(1, node), replaced(1, node)),
		"ReplacedOften": wantBroken(replaced(3, node), "created 4 times, in clean runs 2 times",
			"deleted UID n1 at resourceVersion 108, and 3 more)").against(replaced(1, node), replaced(1, node)),
		"NeverThere": wantBroken(with(), "configmaps ns/n was created 0 times, in clean runs 2 times").
			against(replaced(1, node), replaced(1, node)),
		"MadeAnewLess": wantBroken(replaced(1, controlledBy("example.com/v1")), "created 2 times, in clean runs 3 times").
			against(replaced(2, controlledBy("example.com/v1")), replaced(2, controlledBy("example.com/v1"))),
		"Rejected": wantInconclusive(play(rejected("step 1 make")), "step 1 make of Thing t was rejected").
			against(play(writes("a", thing()))),
		"AsEver": wantHeld(with(), "2 checked").against(clean...),
		"OtherUIDs": wantHeld(play(writes("alice", thing(named("t", "u5"))), writes("a", part("p", "p7")))).
			against(clean...),
		"WrittenOften": wantHeld(with(writes("a", part("p", "p1")), writes("a", thing(ready)))).against(clean...),
		"OneMore": wantBroken(with(writes("a", part("q", "p2"))),
			"configmaps ns/q was created 1 times, in clean runs 0 times", "UID p2 at resourceVersion").against(clean...),
		"OneMoreWhileBusy": wantInconclusive(with(writes("a", part("q", "p2")), busy()),
			`the operator is not done at "end"`).against(clean...),
		"OneLess": wantBroken(play(writes("alice", thing())),
			"configmaps ns/p was created 0 times, in clean runs 1 times (never here)").against(clean...),
		"MadeAnew": wantBroken(with(ends("a", part("p", "p1")), writes("a", part("p", "p2"))), "created 2 times",
			"deleted 1 times, in clean runs 0 times").against(clean...),
		"MadeAnewInAllRuns": wantBroken(anew, "though no user had changed anything",
			"it created the object before, and then delete of configmaps ns/p by replica a").against(anew, anew),
		"MadeAnewForAUser":     wantHeld(forUser).against(forUser, forUser),
		"MadeAnewInHaste":      wantHeld(inHaste).against(inHaste, inHaste),
		"MadeAnewWithAFault":   wantHeld(withFault).against(withFault, withFault),
		"MadeAnewFromAnothers": wantHeld(fromAnother).against(fromAnother, fromAnother),
		"MadeUpTwice": wantBroken(play(writes("a", part("p-x", "p1", generated)),
			writes("a", part("p-y", "p2", generated))),
			"configmaps ns/p-* was created 2 times").against(play(writes("a", part("p-z", "p1", generated)))),
		"MadeUpNames": wantHeld(play(writes("a", part("p-x", "p1", generated)))).
			against(play(writes("a", part("p-z", "p1", generated)))),
		"Aliases": wantHeld(play(writes("alice", thing(named("t-77", "u1"))), calledAs(map[string]string{"t-77": "t"}))).
			against(play(writes("alice", thing(named("t-99", "u1"))), calledAs(map[string]string{"t-99": "t"}))),
		"VariesByItself": wantHeld(with(writes("a", part("q", "p2")))).against(with(), with(writes("a", part("q", "p2")))),
		"PassesInHaste": wantHeld(with(writes("a", part("q", "p2")), ends("a", part("q", "p2")), rests("later"), hasty())).
			against(pair(with(rests("later"), hasty()))...),
		"PassesWithoutHaste": wantBroken(with(writes("a", part("q", "p2")), ends("a", part("q", "p2")), rests("later")),
			"configmaps ns/q was created 1 times, in clean runs 0 times").against(pair(with(rests("later")))...),
		"RestedBeforeHaste": wantBroken(with(writes("a", part("q", "p2")), rests("there"), ends("a", part("q", "p2")),
			rests("later"), hasty()), "configmaps ns/q was created 1 times, in clean runs 0 times").
			against(pair(with(rests("there"), rests("later"), hasty()))...),
		"VariesMore": wantBroken(with(writes("a", part("q", "p2")), ends("a", part("q", "p2")),
			writes("a", part("q", "p3"))), "created 2 times, in clean runs 0 to 1 times").against(with(),
			with(writes("a", part("q", "p2")))),
		"OthersObjects":  wantHeld(with(writes("alice", object("Lease", "mine", "l9")))).against(clean...),
		"NoReference":    wantInconclusive(with(), "no clean run"),
		"BlindReference": wantInconclusive(with(), "no clean run").against(with(without(history.Watch))),
		"MadeAnewAfterAFault": wantHeld(with(ends("alice", part("p", "p1")), writes("a", part("p", "p2")),
			touching(part("p", "p1")))).against(clean...),
		"MadeAnewAfterAnother": wantBroken(with(ends("a", part("p", "p1")), writes("a", part("p", "p2")),
			touching(thing())), "created 2 times").against(clean...),
		"WhatWasInIt": wantInconclusive(with(ends("a", part("p", "p1")), writes("a", part("p", "p2")),
			touching(room("ns", "n1")))).against(clean...),
		"NothingThere": wantInconclusive(play()).against(play()),
	})
}
