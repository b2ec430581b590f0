package invariant_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// What others make of the resources of children is none of the operator's, unless it
// has to do with it.
func TestConcerns_IgnoresObjectsOfOthers(t *testing.T) {
	certificate := func(content string) step {
		return writes("publisher", part("root-ca", "c1", owned(), func(o *unstructured.Unstructured) {
			o.Object["data"] = map[string]any{"ca": content}
		}))
	}
	plain := part("plain", "p1", owned())
	with := func(more ...step) *history.History {
		return tell(append(append([]step{writes("alice", thing())}, more...), rests("end"))...)
	}
	clean := []*history.History{with(certificate("a")), with(certificate("a"))}
	for _, i := range []invariant.Invariant{invariant.EndState, invariant.SingleLifecycle} {
		t.Run(i.Name, func(t *testing.T) {
			check(t, i, map[string]row{
				"TheSame":            {history: with(certificate("a")), references: clean, want: invariant.Held},
				"AnothersDiffers":    {history: with(certificate("b")), references: clean, want: invariant.Held},
				"AnothersIsNotThere": {history: with(), references: clean, want: invariant.Held},
				"AnotherMadeMore": {history: with(certificate("a"), writes("publisher", plain)), references: clean,
					want: invariant.Held},
				"TheOperatorMadeMore": {history: with(certificate("a"), writes("a", plain)), references: clean,
					want: invariant.Broken, says: []string{"configmaps ns/plain"}},
				"AnotherMadeOneForIt": {history: with(certificate("a"), writes("publisher", part("p", "p1"))), references: clean,
					want: invariant.Broken, says: []string{"configmaps ns/p"}},
				"NobodyKnowsWhoHasIt": {history: with(certificate("a"), writes("publisher", plain), without(history.Audit)),
					references: clean, want: invariant.Broken, says: []string{"configmaps ns/plain"}},
				"TheOperatorTouchedIt": {history: with(certificate("a"), writes("publisher", plain), writes("a", plain)),
					references: clean, want: invariant.Broken, says: []string{"configmaps ns/plain"}},
			})
		})
	}
}
