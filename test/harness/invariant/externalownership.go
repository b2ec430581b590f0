// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// ExternalOwnership counts what is really there outside the cluster.
var ExternalOwnership = Invariant{
	Name:    "external-ownership",
	Bug:     "https://github.com/aws-controllers-k8s/community/issues/2062",
	Promise: "one external thing for each existing object, none for deleted ones, each with an owner tag",
	judge:   judgeOneExternal,
}

func judgeOneExternal(b *judgement) {
	kinds := slices.DeleteFunc(slices.Clone(b.Contract.Kinds), func(k Kind) bool { return !k.External })
	if len(kinds) == 0 || !b.hasSource(history.External) || !b.hasSource(history.Watch) {
		return
	}
	for _, call := range b.History.Calls {
		if call.Action != history.Create || call.Replica == "" {
			continue
		}
		b.checked++
		if call.Owner == "" {
			b.addViolation("%s: without an owner tag its creator cannot find it again", call).call(call)
		}
	}
	looked := slices.DeleteFunc(slices.Clone(b.History.Checkpoints),
		func(m history.Checkpoint) bool { return !m.Listed || !m.Converged })
	if len(looked) == 0 {
		b.addDoubt("the external objects were not listed at any checkpoint")
	}
	for _, m := range looked {
		things := map[types.UID][]string{}
		for _, t := range m.Things {
			if t.Owner != "" {
				things[t.Owner] = append(things[t.Owner], t.Name)
			}
		}
		for _, k := range kinds {
			for _, life := range b.index.Lifetimes(k.Resource) {
				b.judgeThings(k, life, m, things[life.UID])
			}
		}
		for _, owner := range slices.Sorted(maps.Keys(things)) {
			if b.index.Lifetime(owner) == nil {
				b.addDoubt("at %q there are %q, for UID %s that was not recorded", m.Name, things[owner], owner)
			}
		}
	}
}

// judgeThings counts one object's external objects at one checkpoint.
func (b *judgement) judgeThings(k Kind, life *history.Lifetime, m history.Checkpoint, things []string) {
	if !slices.ContainsFunc(life.Versions,
		func(v history.Version) bool { return m.To == 0 || v.Before(history.At(m.To)) }) {
		return // it is not there yet
	}
	now := at(life, m)
	if now == nil {
		b.checked++
		if len(things) > 0 && !k.keeps(life) {
			b.addViolation("%s has been gone since %s, and at %q it still has the external objects %q", life.Identity(),
				life.End.RevisionRange, m.Name, things).revision(life.End.RevisionRange).checkpoint(m)
		}
		return
	}
	if len(things) > 1 {
		b.addViolation("%s (UID %s, %s) has %d external objects at %q: %q", life.Key, life.UID, now.RevisionRange,
			len(things), m.Name, things).revision(now.RevisionRange).checkpoint(m)
	}
	if !k.manages(now) {
		return
	}
	b.checked++
	if len(things) == 0 && now.Object.GetDeletionTimestamp() == nil && reportsReady(k, now) {
		b.addViolation("%s is %s at %s, and at %q it has no external object", life.Identity(), k.Ready, now.RevisionRange,
			m.Name).revision(now.RevisionRange).checkpoint(m)
	}
}

// reportsReady reports whether the status has Ready for the spec as it is now.
func reportsReady(k Kind, v *history.Version) bool {
	found, _ := conditions(v.Object)
	ready, generation := found[k.Ready], v.Object.GetGeneration()
	current := func(seen int64) bool { return seen == 0 || seen == generation }
	return ready.status == "True" && current(ready.observed) && current(observed(v.Object))
}
