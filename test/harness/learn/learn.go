// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// judged are the promises that a scenario may require, because every run of it can show them.
// Others need a fault, metrics or a figure.
var judged = []string{"end-state", "single-lifecycle", "convergence", "quiescence", "single-writer", "preconditions", "ownership", "finalizer-order", "truthful-status", "sufficient-rights"}

// events are resources that each replica may write.
var events = []history.Resource{{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}}

// observation is one clean run of a kind's scenario.
type observation struct {
	history *history.History
	index   *history.Index
	main    *history.Lifetime
}

// Learn completes a kind from clean runs of its scenario: the finalizer, the state at rest and the
// children. users are the operator's.
func (d *Draft) Learn(k *DraftKind, users []string, histories ...*history.History) error {
	var runs []observation
	for _, h := range histories {
		r := observation{history: h, index: h.Index()}
		for _, life := range r.index.Lifetimes(k.Resource) {
			if cmp.Or(h.Aliases[life.Name], life.Name) == k.Objects[k.Main].GetName() {
				r.main = life
			}
		}
		if r.main == nil || len(r.main.Versions) == 0 {
			return fmt.Errorf("learning from runs of %s: no version of %s was recorded", k.Word, k.Resource)
		}
		runs = append(runs, r)
	}
	d.learnUnchanged(runs, users)
	k.learnFinalizer(runs)
	k.learnRest(runs)
	k.learnPause(runs, users, append(slices.Clone(d.Leases), d.Lease))
	k.learnChildren(runs, users, d.Lease.Resource)
	k.Ignored = !slices.ContainsFunc(histories, func(h *history.History) bool { return h.Answered(users, d.Lease.Namespace) })
	return nil
}

// Require makes the scenario of each kind require the promises that clean runs could be judged by.
// The histories are those of the kinds, in the same order.
func (d *Draft) Require(promises invariant.Contract, histories [][]*history.History) {
	for i := range d.Kinds {
		if d.Kinds[i].Problem != "" {
			continue
		}
		could := map[string]int{}
		for _, h := range histories[i] {
			for _, v := range invariant.Judge(invariant.Case{History: h, References: histories[i], Contract: promises}) {
				if v.Result != invariant.Inconclusive {
					could[v.Invariant]++
				}
			}
		}
		d.Kinds[i].Invariants = slices.DeleteFunc(slices.Clone(judged), func(id string) bool {
			return could[id] < len(histories[i]) || d.Kinds[i].Unfinished && slices.Contains(atRestOnly, id)
		})
	}
}

// learnUnchanged counts the writes to one object between two checkpoints that changed nothing, as
// invariant.Quiescence does.
func (d *Draft) learnUnchanged(runs []observation, users []string) {
	for _, r := range runs {
		type visit struct {
			history.Key
			uid   types.UID
			after int // checkpoints
		}
		counts := map[visit]int{}
		for _, q := range r.history.Requests {
			if q.Effect == history.Unchanged && slices.Contains(users, q.User) && q.Key != d.Lease &&
				!slices.Contains(events, q.Resource) {
				at := visit{q.Key, q.UID, r.history.CheckpointsBefore(q.Received)}
				counts[at]++
				d.Unchanged = max(d.Unchanged, counts[at])
			}
		}
	}
}

// steady returns what a function finds in all runs.
func steady(runs []observation, find func(observation) []string) []string {
	common := find(runs[0])
	for _, r := range runs[1:] {
		here := find(r)
		common = slices.DeleteFunc(common, func(s string) bool { return !slices.Contains(here, s) })
	}
	return common
}

func (k *DraftKind) learnFinalizer(runs []observation) {
	own := k.Objects[k.Main].GetFinalizers()
	found := steady(runs, func(r observation) []string {
		var all []string
		for _, v := range r.main.Versions {
			for _, f := range v.Object.GetFinalizers() {
				known := slices.Contains(own, f) || slices.Contains(all, f)
				if !known && f != metav1.FinalizerDeleteDependents && f != metav1.FinalizerOrphanDependents {
					all = append(all, f)
				}
			}
		}
		return all
	})
	if len(found) == 0 {
		return
	}
	k.Finalizer = found[0]
	if len(found) > 1 {
		k.Notes = append(k.Notes, fmt.Sprintf("guess: of the finalizers %q the first is the operator's", found))
	}
}

// atRest is the last version of the object before a user deleted it.
func (r observation) atRest() *unstructured.Unstructured {
	last := r.main.Versions[0].Object
	for _, v := range r.main.Versions {
		if v.Object.GetDeletionTimestamp() == nil {
			last = v.Object
		}
	}
	return last
}

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
