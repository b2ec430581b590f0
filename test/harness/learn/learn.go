// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
	"fmt"
	"slices"

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
	k.Ignored = !slices.ContainsFunc(histories, func(h *history.History) bool {
		return h.Answered(users, d.Lease.Namespace)
	})
	return nil
}

// Require makes the kind's scenario require the promises that its clean runs could be judged by.
func (k *DraftKind) Require(promises invariant.Contract, histories []*history.History) {
	could := map[string]int{}
	for _, h := range histories {
		for _, v := range invariant.Judge(invariant.Case{History: h, References: histories, Contract: promises}) {
			if v.Result != invariant.Inconclusive {
				could[v.Invariant]++
			}
		}
	}
	k.Invariants = slices.DeleteFunc(slices.Clone(judged), func(id string) bool {
		return could[id] < len(histories) || k.Unfinished && slices.Contains(atRestOnly, id)
	})
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
