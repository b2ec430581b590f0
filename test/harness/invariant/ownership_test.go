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
	check(t, invariant.Ownership, map[string]row{
		"Owned": {history: tell(born, writes("a", part("p", "p1"))), want: invariant.Held},
		"ClusterOwner": {history: tell(writes("alice", thing(clusterScoped)), writes("a", part("p", "p1"))),
			want: invariant.Held},
		"MarkedOnly": {history: tell(born, writes("a", room("r", "r1"))), want: invariant.Held},
		"Unowned": {history: tell(born, writes("a", part("p", "p1", ownerless))), want: invariant.Broken,
			says: []string{"configmaps ns/p (UID p1) at resourceVersion 103 has no controlling owner"}},
		"UnownedGoing": {history: tell(born, writes("a", part("p", "p1")),
			writes("a", part("p", "p1", ownerless, leaving))), want: invariant.Held},
		"StrippedByUser": {history: tell(born, writes("a", part("p", "p1")), writes("alice", part("p", "p1", ownerless)),
			writes("a", part("p", "p1"))), want: invariant.Held},
		"OtherNamespace": {history: tell(born, writes("a", part("p", "p1", elsewhere))), want: invariant.Broken,
			says: []string{"in another namespace"}},
		"Twice": {history: tell(born, writes("a", part("p", "p1", owned("u1", "u1")))), want: invariant.Broken,
			says: []string{"(UID u1) twice"}},
		"TwoControllers": {history: tell(born, writes("alice", thing(named("t", "u2"))),
			writes("a", part("p", "p1", twoControllers))), want: invariant.Broken, says: []string{"2 controlling owners"}},
		"DeadOwner": {history: tell(born, ends("alice", thing()), writes("a", part("p", "p1"))), want: invariant.Broken,
			says: []string{"had been gone since resourceVersion 103"}},
		"DyingOwner": {history: tell(born, writes("a", part("p", "p1")), ends("alice", thing())), want: invariant.Held},
		"NameOfAnother": {history: tell(born, writes("a", part("p", "p1", otherName))), want: invariant.Broken,
			says: []string{"is that of things.example.com ns/t, not of Thing s"}},
		"OwnsInput": {history: tell(born, writes("alice", part("p", "p1", ownerless)), writes("a", part("p", "p1"))),
			want: invariant.Broken, says: []string{"added an owner reference to configmaps ns/p (UID p1), which alice had created"}},
		"FromBefore": {history: tell(born, writes("alice", part("p", "p1", ownerless),
			func(r *history.Request) { r.Made = false }), writes("a", part("p", "p1"))), want: invariant.Held},
		"PlainOwnerToo": {history: tell(born, writes("alice", thing(named("t", "u2"))),
			writes("a", part("p", "p1", owned("u1", "u2")))), want: invariant.Held},
		"CopyByUser": {history: tell(born, writes("a", part("p", "p1")), writes("alice", part("p", "p2", elsewhere))),
			want: invariant.Held},
		"TouchesInput": {history: tell(born, writes("alice", part("p", "p1", ownerless)),
			writes("a", part("p", "p1", ownerless, data("x", "1")))), want: invariant.Held},
		"UnknownOwner": {history: tell(writes("a", part("p", "p1"))), want: invariant.Inconclusive,
			says: []string{"no request of the history shows its owner Thing t (UID u1)"}},
		"NothingWritten": {history: tell(born), want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
		"NotRecorded": {history: tell(born, writes("a", part("p", "p1", ownerless)), without(history.Audit)),
			want: invariant.Inconclusive, says: []string{"[audit]"}},
	})
}
