// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// found is a child with what its objects have in common.
type found struct {
	invariant.Child
	// awaited and abandoned mean that an object ended while its owner was being deleted, or
	// outlived it.
	awaited, abandoned bool
}

// learnChildren finds the objects that the operator created, and their references to the owner.
func (k *DraftKind) learnChildren(runs []observation, users []string, lease history.Resource) {
	var all []*found
	for _, r := range runs {
		for _, life := range r.created(users) {
			if life.Resource == lease || life.Resource == k.Resource || slices.Contains(events, life.Resource) {
				continue
			}
			c := r.identify(life)
			if c == nil {
				if !slices.Contains(k.Watched, life.Resource) {
					k.Watched = append(k.Watched, life.Resource)
				}
				continue
			}
			i := slices.IndexFunc(all, func(o *found) bool {
				return o.Resource == c.Resource && o.Annotation == c.Annotation && o.Label == c.Label
			})
			if i < 0 {
				i = len(all)
				all = append(all, &found{Child: *c})
			}
			all[i].Controlled = all[i].Controlled && c.Controlled
			awaited, abandoned := r.fate(life)
			all[i].awaited, all[i].abandoned = all[i].awaited || awaited, all[i].abandoned || abandoned
		}
	}
	k.watchWritten(runs, users, lease)
	for _, f := range all {
		f.Awaited = k.Finalizer != "" && f.awaited && !f.abandoned
		k.Children = append(k.Children, f.Child)
	}
}

// watchWritten adds the resources of objects that the operator changes or deletes and that other
// clients created, such as the taints of Nodes and the claims of a StatefulSet: a wrong write shows
// nowhere else.
func (k *DraftKind) watchWritten(runs []observation, users []string, lease history.Resource) {
	for _, r := range runs {
		made := r.created(users)
		for _, q := range r.history.Requests {
			own := slices.ContainsFunc(made, func(life *history.Lifetime) bool { return life.Resource == q.Resource })
			if q.Done() && !own && slices.Contains(users, q.User) && q.Resource != k.Resource && q.Resource != lease &&
				!slices.Contains(events, q.Resource) && !slices.Contains(k.Watched, q.Resource) {
				k.Watched = append(k.Watched, q.Resource)
			}
		}
	}
}

// created are the objects that the operator created and that were recorded.
func (r observation) created(users []string) []*history.Lifetime {
	var all []*history.Lifetime
	for _, q := range r.history.Requests {
		if !q.Done() || !slices.Contains(users, q.User) {
			continue
		}
		life := r.index.Created(q)
		if life != nil && len(life.Versions) > 0 && !slices.Contains(all, life) {
			all = append(all, life)
		}
	}
	return all
}

// identify finds by what an object names the owner; nil if by nothing.
func (r observation) identify(life *history.Lifetime) *invariant.Child {
	c := &invariant.Child{Resource: life.Resource}
	owns := func(ref *metav1.OwnerReference) bool { return ref != nil && ref.UID == r.main.UID }
	last := life.Last()
	c.Controlled = !slices.ContainsFunc(life.Versions,
		func(v history.Version) bool { return v.Object == nil || !owns(metav1.GetControllerOf(v.Object)) })
	if c.Controlled {
		return c
	}
	for _, ref := range last.Object.GetOwnerReferences() {
		if owns(&ref) {
			return c
		}
	}
	for _, names := range r.namings(life) {
		if c.Annotation = keyOf(last.Object.GetAnnotations(), names); c.Annotation != "" {
			return c
		}
		if c.Label = keyOf(last.Object.GetLabels(), names); c.Label != "" {
			return c
		}
	}
	return nil
}

// fate reports whether an object ended while its owner was being deleted, and whether it outlived
// the owner.
func (r observation) fate(life *history.Lifetime) (awaited, abandoned bool) {
	began, end := r.main.Terminating(), r.main.End
	if began == nil || end == nil {
		return false, false
	}
	abandoned = life.End == nil || !life.End.Before(end.RevisionRange)
	return !abandoned && began.Before(life.End.RevisionRange), abandoned
}

// namings are the texts that name the owner, the most certain first.
func (r observation) namings(life *history.Lifetime) []string {
	all := []string{string(r.main.UID), r.main.Namespace + "/" + r.main.Name}
	if r.main.Namespace == "" || r.main.Namespace == life.Namespace {
		all = append(all, r.main.Name)
	}
	return all
}

// keyOf is the first key with a value; "" if there is none.
func keyOf(values map[string]string, wanted string) string {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if values[key] == wanted && !strings.HasPrefix(key, "kubectl.kubernetes.io/") {
			return key
		}
	}
	return ""
}
