// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// Ownership looks at the owner references of everything that the operator wrote.
var Ownership = Invariant{
	Name: "ownership",
	Bug:  "https://github.com/metal3-io/baremetal-operator/issues/1347",
	Promise: "one controlling owner, which exists, in the same namespace or cluster-scoped; never of an object of " +
		"another creator",
	needs: []history.Source{history.Audit},
	judge: judgeOwnership,
}

func judgeOwnership(b *judgement) {
	writers := b.writers()
	for _, life := range b.index.All() {
		maker, known := history.Request{}, false
		if len(life.Versions) > 0 {
			maker, known = writers[life.Versions[0].RevisionRange]
			known = known && maker.Made
		}
		var before []metav1.OwnerReference
		finalizers := 0
		for _, v := range life.Versions {
			references := v.Object.GetOwnerReferences()
			if w, ok := writers[v.RevisionRange]; ok && b.ours(w) && w.Key != b.Contract.Lease {
				added := slices.ContainsFunc(references, func(r metav1.OwnerReference) bool {
					return !slices.ContainsFunc(before, func(o metav1.OwnerReference) bool { return o.UID == r.UID })
				})
				if added || len(v.Object.GetFinalizers()) >= finalizers { // to release an object is right at any time
					b.judgeReferences(life, v, references, known && b.ours(maker))
				}
				if added && known && !b.ours(maker) {
					b.addViolation("%s: it added an owner reference to %s, which %s had created", w, life.Identity(), maker.User).
						request(w)
				}
			}
			before, finalizers = references, len(v.Object.GetFinalizers())
		}
	}
}

// judgeReferences judges the references after one write of the operator; made means that the
// operator created the object.
func (b *judgement) judgeReferences(life *history.Lifetime, v history.Version, references []metav1.OwnerReference,
	made bool) {
	b.checked++
	controllers := 0
	seen := map[types.UID]bool{}
	for _, r := range references {
		if seen[r.UID] {
			b.addAt(life, v, " names owner %s %s (UID %s) twice", r.Kind, r.Name, r.UID)
		}
		seen[r.UID] = true
		if r.Controller != nil && *r.Controller {
			controllers++
		}
		owner := b.index.Lifetime(r.UID)
		switch {
		case owner == nil:
			b.addDoubt("%s at %s: no request of the history shows its owner %s %s (UID %s)", life.Identity(), v.RevisionRange,
				r.Kind, r.Name, r.UID)
		case owner.Name != r.Name:
			b.addAt(life, v, ": the UID of its owner, %s, is that of %s, not of %s %s", r.UID, owner.Key, r.Kind, r.Name)
		case owner.Namespace != "" && owner.Namespace != life.Namespace:
			b.addAt(life, v, ": its owner %s is in another namespace, so the garbage collector will delete it", owner.Key)
		case owner.End != nil && owner.End.Before(v.RevisionRange):
			b.addAt(life, v, ": its owner %s had been gone since %s", owner.Identity(), owner.End.RevisionRange).
				revision(owner.End.RevisionRange)
		}
	}
	if controllers > 1 {
		b.addAt(life, v, " has %d controlling owners", controllers)
	}
	for _, k := range b.Contract.Kinds {
		for _, c := range k.Children {
			if made && c.Resource == life.Resource && c.Controlled && controllers == 0 &&
				v.Object.GetDeletionTimestamp() == nil {
				b.addAt(life, v, " has no controlling owner")
			}
		}
	}
}
