// SPDX-License-Identifier: Apache-2.0

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
		return play(all(steps...), rests("end"))
	}
	usual := pair(run(thing(held, ready), part("p", "p1", data("x", "1"))))
	lists := []*history.History{run(part("p", "p1", listed("a", "bb"))), run(part("p", "p1", listed("bb", "a")))}
	// port has a number and a boolean in place of texts.
	port := func(number int64, named bool) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.Object["port"] = map[string]any{"number": number, "named": named}
		}
	}
	ports := pair(run(part("p", "p1", port(80, true))))
	varying := []*history.History{run(part("p", "p1", data("x", "1"))), run(part("p", "p1", data("x", "2")))}
	hashes := func(keys ...string) (all []*history.History) {
		for _, key := range keys {
			all = append(all, run(part("p", "p1", data(key, "1"))))
		}
		return all
	}
	versions := pair(run(part("p", "p1", data("observedSecretResourceVersion", "2"))))
	address := func(ip string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.Object["spec"] = map[string]any{"clusterIP": ip, "clusterIPs": []any{ip}}
		}
	}
	addresses := pair(run(part("p", "p1", address("10.0.0.7"))))
	madeUp := []*history.History{run(part("p-c", "p1", generated), part("p-d", "p2", generated)),
		run(part("p-e", "p1", generated), part("p-f", "p2", generated))}
	by := func(requester string) *history.History {
		h := run(part("p", "p1", data("requester", requester)))
		h.Replicas = []history.Process{{Name: "manager-0"}, {Name: "manager-1"}}
		return h
	}
	const token, other = "JTI=5f8f6c00-94a8-4887-b455-e7669ee524d9", "JTI=8d44bebd-8e87-464e-a2cb-57cf233358b0"
	check(t, invariant.EndState, table{
		"OtherLeader": wantHeld(by("manager-1")).against(pair(by("manager-0"))...),
		"OtherToken":  wantHeld(by(other)).against(pair(by(token))...),
		"NoLeader": wantBroken(by("manager-2"), `data.requester is "manager-2", in clean runs "(a replica)"`).
			against(pair(by("manager-0"))...),
		"Same":          wantHeld(run(thing(held, ready), part("p", "p1", data("x", "1"))), "2 checked"),
		"OtherUIDs":     wantHeld(run(thing(held, ready, named("t", "u9")), part("p", "p9", data("x", "1"), owned("u9")))),
		"OtherTimes":    wantHeld(run(thing(held, says("True", "Fine", 1, "44")), part("p", "p1", data("x", "1")))),
		"OtherVersions": wantHeld(run(part("p", "p1", data("observedSecretResourceVersion", "3")))).against(versions...),
		"NoVersion": wantBroken(run(part("p", "p1", data("observedSecretResourceVersion", ""))),
			`data.observedSecretResourceVersion is "", in clean runs "(a version)"`).against(versions...),
		"OtherAddress": wantHeld(run(part("p", "p1", address("10.0.0.8")))).against(addresses...),
		"NoAddress": wantBroken(run(part("p", "p1", address("None"))),
			`spec.clusterIP is "None", in clean runs "(an address)"`).against(addresses...),
		"OtherPath": wantHeld(run(thing(held), part("p", "p1", data("x", "2")), thing(held, ready),
			part("p", "p1", data("x", "1")))),
		"WrongValue": wantBroken(run(thing(held, ready), part("p", "p1", data("x", "2"))),
			`configmaps ns/p (UID p1 at resourceVersion 103): data.x is "2", in clean runs "1"`,
			`at "end"`),
		"NotThere": wantBroken(run(thing(held, ready)), "configmaps ns/p does not exist"),
		"Rejected": wantInconclusive(play(writes("a", thing(held, ready)), rejected("step 1 make"), rests("end")),
			`at "end" the state is not comparable with clean runs: step 1 make of Thing t was rejected: denied`),
		"RejectedAlways": wantBroken(play(rejected("step 1 make"), writes("a", thing()), rests("end"))).
			against(pair(play(rejected("step 1 make"), rests("end")))...),
		"TooMuch": wantBroken(run(thing(held, ready), part("p", "p1", data("x", "1")), part("q", "q1")),
			"configmaps ns/q (UID q1 at resourceVersion 104) exists, and in no clean run"),
		"Condition": wantBroken(run(thing(held, says("False", "Down", 1, "01")), part("p", "p1", data("x", "1"))),
			`status.conditions[Ready].status is "False"`),
		"Behind": wantBroken(run(thing(held, ready, generation(2)), part("p", "p1", data("x", "1"))),
			`status.observedGeneration is "(current: false)"`),
		"NoStatus": wantBroken(run(thing(held), part("p", "p1", data("x", "1"))),
			`status.conditions[Ready].type is absent`),
		"TooMuchWhileBusy": wantInconclusive(play(writes("a", thing(held, ready)), writes("a", part("q", "q1")), rests("end"),
			busy()), "nothing that this promise applies to"),
		"OtherOwner": wantBroken(run(thing(held, ready), part("p", "p1", data("x", "1"), owned("u5"))),
			"ownerReferences[t].uid"),
		"Leaving": wantBroken(run(thing(held, ready, leaving), part("p", "p1", data("x", "1"))),
			"metadata.deletionTimestamp"),
		"ListOrder":  wantHeld(run(part("p", "p1", listed("bb", "a")))).against(lists...),
		"ListLonger": wantBroken(run(part("p", "p1", listed("a", "bb", "c"))), "list[c].name").against(lists...),
		"ListTwice":  wantBroken(run(part("p", "p1", listed("a", "bb", "a"))), "list[2].name").against(lists...),
		"WrongNumber": wantBroken(run(part("p", "p1", port(81, true))), `port.number is "81", in clean runs "80"`).
			against(ports...),
		"WrongBoolean": wantBroken(run(part("p", "p1", port(80, false))), `port.named is "false", in clean runs "true"`).
			against(ports...),
		"Masked":       wantHeld(run(part("p", "p1", data("x", "3")))).against(varying...),
		"MaskedOnly":   wantBroken(run(part("p", "p1", data("y", "3"))), "data.y").against(varying...),
		"OtherHash":    wantHeld(hashes("f83a210")[0]).against(hashes("0fe3a77b", "9b5c21d0")...),
		"HashOfNone":   wantBroken(hashes("f83a210")[0], "data.f83a210").against(hashes("x", "9b5c21d0")...),
		"HashOfAll":    wantBroken(hashes("f83a210")[0], "data.f83a210").against(hashes("9b5c21d0", "9b5c21d0")...),
		"NoHash":       wantBroken(hashes("unlike")[0], "data.unlike").against(hashes("0fe3a77b", "9b5c21d0")...),
		"ComesAndGoes": wantHeld(run(thing(held))).against(run(thing(held)), run(thing(held), part("p", "p1"))),
		"CameThisTime": wantHeld(run(thing(held), part("p", "p2", data("x", "1")))).
			against(run(thing(held)), run(thing(held), part("p", "p1"))),
		"Generated": wantHeld(run(part("p-a", "p1", generated), part("p-b", "p2", generated))).against(madeUp...),
		"GeneratedLess": wantBroken(run(part("p-a", "p1", generated)), "configmaps ns/p-* #2 does not exist").
			against(madeUp...),
		"OthersObjects": wantHeld(run(thing(held, ready), part("p", "p1", data("x", "1")), object("Lease", "x", "l9"))),
		"LaterChanges": wantHeld(play(writes("a", thing(held, ready)), writes("a", part("p", "p1", data("x", "1"))),
			rests("end"), writes("a", part("p", "p1", data("x", "2"))))),
		"OneReference": wantInconclusive(run(thing(held)), "1 clean runs").against(usual[:1]...),
		"NoReference":  wantInconclusive(run(thing(held)), "0 clean runs").against(none...),
		"NoMark":       wantInconclusive(play(writes("a", thing(held))), "nothing that this promise applies to"),
	}.against(usual...))
}
