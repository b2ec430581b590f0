// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func ownerless(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }
func elsewhere(o *unstructured.Unstructured) { o.SetNamespace("other") }
func twoControllers(o *unstructured.Unstructured) {
	references := o.GetOwnerReferences()
	o.SetOwnerReferences(append(references,
		metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "t", UID: "u2", Controller: new(true)}))
}
func clusterScoped(o *unstructured.Unstructured) { o.SetNamespace("") }
func otherName(o *unstructured.Unstructured) {
	references := o.GetOwnerReferences()
	references[0].Name = "s"
	o.SetOwnerReferences(references)
}

func TestOwnership(t *testing.T) {
	born := writes("alice", thing())
	check(t, invariant.Ownership, table{
		"Owned":        wantHeld(play(born, writes("a", part("p", "p1")))),
		"ClusterOwner": wantHeld(play(writes("alice", thing(clusterScoped)), writes("a", part("p", "p1")))),
		"MarkedOnly":   wantHeld(play(born, writes("a", room("r", "r1")))),
		"Unowned": wantBroken(play(born, writes("a", part("p", "p1", ownerless))),
			"configmaps ns/p (UID p1) at resourceVersion 103 has no controlling owner"),
		"UnownedGoing": wantHeld(play(born, writes("a", part("p", "p1")), writes("a", part("p", "p1", ownerless, leaving)))),
		"StrippedByUser": wantHeld(play(born, writes("a", part("p", "p1")), writes("alice", part("p", "p1", ownerless)),
			writes("a", part("p", "p1")))),
		"OtherNamespace": wantBroken(play(born, writes("a", part("p", "p1", elsewhere))), "in another namespace"),
		"Twice":          wantBroken(play(born, writes("a", part("p", "p1", owned("u1", "u1")))), "(UID u1) twice"),
		"TwoControllers": wantBroken(play(born, writes("alice", thing(named("t", "u2"))),
			writes("a", part("p", "p1", twoControllers))), "2 controlling owners"),
		"DeadOwner": wantBroken(play(born, ends("alice", thing()), writes("a", part("p", "p1"))),
			"had been gone since resourceVersion 103"),
		"ReleasedAfterOwner": wantHeld(play(born, writes("a", part("p", "p1", held)), ends("alice", thing()),
			writes("a", part("p", "p1")))),
		"ReleasedToDeadOwner": wantBroken(play(born, writes("alice", thing(named("t", "u2"))), writes("a", part("p", "p1", held)),
			ends("alice", thing(named("t", "u2"))), writes("a", part("p", "p1", owned("u1", "u2")))), "had been gone since"),
		"DyingOwner": wantHeld(play(born, writes("a", part("p", "p1")), ends("alice", thing()))),
		"NameOfAnother": wantBroken(play(born, writes("a", part("p", "p1", otherName))),
			"is that of things.example.com ns/t, not of Thing s"),
		"OwnsInput": wantBroken(play(born, writes("alice", part("p", "p1", ownerless)), writes("a", part("p", "p1"))),
			"added an owner reference to configmaps ns/p (UID p1), which alice had created"),
		"FromBefore": wantHeld(play(born, writes("alice", part("p", "p1", ownerless),
			func(r *history.Request) { r.Made = false }), writes("a", part("p", "p1")))),
		"PlainOwnerToo": wantHeld(play(born, writes("alice", thing(named("t", "u2"))),
			writes("a", part("p", "p1", owned("u1", "u2"))))),
		"CopyByUser": wantHeld(play(born, writes("a", part("p", "p1")), writes("alice", part("p", "p2", elsewhere)))),
		"TouchesInput": wantHeld(play(born, writes("alice", part("p", "p1", ownerless)),
			writes("a", part("p", "p1", ownerless, data("x", "1"))))),
		"UnknownOwner": wantInconclusive(play(writes("a", part("p", "p1"))),
			"no request of the history shows its owner Thing t (UID u1)"),
		"NothingWritten": wantInconclusive(play(born), "nothing that this promise applies to"),
	})
}
