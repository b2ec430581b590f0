// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/history"
)

// judgeLost looks for objects of users that were deleted, although no step deletes them. An object that clean runs
// lose as well is deleted by design.
func (b *judgement) judgeLost(clean []*history.History) {
	skipped := b.touched()
	for _, h := range clean {
		for _, life := range b.lost(h) {
			skipped[h.Normalizer().Replace(collapsed(life).String())] = true
		}
	}
	marks := append(slices.Clone(b.History.Checkpoints), history.Checkpoint{Name: "the end"})
	for _, life := range b.lost(b.History) {
		name := b.History.Normalizer().Replace(collapsed(life).String())
		if life.End == nil || skipped[name] {
			continue
		}
		b.checked++
		by, references := life.End.When(), revisionOf(life.End.RevisionRange)
		for _, r := range b.History.Requests {
			if r.Done() && deletes(r, life) && life.Versions[0].Before(r.RevisionRange) {
				by, references = r.String()+", request "+r.ID, append(requestAndRevision(r), references...)
				break
			}
		}
		step := marks[b.History.CheckpointsBefore(life.Versions[0].At)].Name
		v := b.addViolation("%s, which a step before %q created, was deleted (%s), and no step deletes it", name, step, by)
		v.refer(references...).Objects, v.Lost = []string{name}, true
	}
}

// lost returns the objects of users that were deleted, or that are being deleted, although no user deleted them, their
// namespaces or the owners that they were created with. The operator may add its own object as an owner, whose deletion
// does not ask for that of the user's.
func (b *judgement) lost(h *history.History) []*history.Lifetime {
	byUser := func(r history.Request) bool { return isPerson(r.User) && !b.ours(r) }
	created, index := objectsOf(h, func(r history.Request) bool { return byUser(r) && r.Made }), h.Index()
	var intended func(*history.Lifetime, int) bool
	intended = func(life *history.Lifetime, above int) bool {
		return slices.ContainsFunc(h.Requests, func(r history.Request) bool { return byUser(r) && deletes(r, life) }) ||
			len(life.Versions) > 0 &&
				slices.ContainsFunc(life.Versions[0].Object.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
					owner := index.Lifetime(o.UID)
					return owner != nil && above < maxOwners && intended(owner, above+1)
				})
	}
	return slices.DeleteFunc(slices.Clone(index.All()), func(life *history.Lifetime) bool {
		return !created[life.UID] || life.Last() == nil || life.End == nil && life.Terminating() == nil || intended(life, 0)
	})
}

// maxOwners bounds the owners of an object above each other, because references may form a circle.
const maxOwners = 5

// deletes reports whether a request may have deleted the object or its namespace.
func deletes(r history.Request, life *history.Lifetime) bool {
	switch {
	case r.Verb != "delete" && r.Verb != "deletecollection" || r.Effect == history.Refused || r.Subresource != "":
		return false
	case r.Verb == "delete" && r.Key == history.Key{Resource: history.Resource{Resource: "namespaces"}, Name: life.Namespace}:
		r.Key = life.Key
	case r.Verb == "deletecollection":
		r.Name = life.Name
	}
	return mayChange(r, life)
}
