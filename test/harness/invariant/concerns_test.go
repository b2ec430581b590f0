// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"slices"
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
	with := afterThing
	pod := func(name string) step { return writes("admin", object("Pod", name, "p2")) }
	pods := func(o *invariant.Contract) {
		o.Watched = append(slices.Clone(o.Watched), history.Resource{Resource: "pods"})
	}
	replica := changes(func(s *script) { s.Replicas = []history.Process{{Name: "a"}} })
	clean := pair(with(certificate("a")))
	for _, i := range []invariant.Invariant{invariant.EndState, invariant.SingleLifecycle} {
		t.Run(i.Name, func(t *testing.T) {
			check(t, i, table{
				"TheSame":                wantHeld(with(certificate("a"))),
				"AnothersDiffers":        wantHeld(with(certificate("b"))),
				"AnothersIsNotThere":     wantHeld(with()),
				"AnotherMadeMore":        wantHeld(with(certificate("a"), writes("publisher", plain))),
				"TheOperatorMadeMore":    wantBroken(with(certificate("a"), writes("a", plain)), "configmaps ns/plain"),
				"AnotherMadeOneForIt":    wantBroken(with(certificate("a"), writes("publisher", part("p", "p1"))), "configmaps ns/p"),
				"TheHarnessMadeAReplica": wantHeld(with(certificate("a"), pod("a"), replica)).under(pods),
				"AUserMadeAPod":          wantBroken(with(certificate("a"), pod("b"), replica), "pods b").under(pods),
				"TheOperatorTouchedIt": wantBroken(with(certificate("a"), writes("publisher", plain), writes("a", plain)),
					"configmaps ns/plain"),
			}.against(clean...))
		})
	}
}
