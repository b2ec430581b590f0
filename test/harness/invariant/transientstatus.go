// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"leasehold.dev/test/harness/history"
)

// stalled is the condition type that shows tools that an object cannot progress.
const stalled = "Stalled"

// judgeAgreement looks for one version that contradicts itself. No checkpoint shows it, but a client
// that waits for Ready acts on it.
func (b *judgement) judgeAgreement(k Kind, life *history.Lifetime, v history.Version) {
	found, _ := conditions(v.Object)
	ready := found[k.Ready]
	if k.Ready == "" || ready.status != "True" {
		return
	}
	if seen := observed(v.Object); ready.observed != 0 && seen != 0 && ready.observed != seen {
		b.addAt(life, v, ": %s is True about generation %d in a status about generation %d", k.Ready, ready.observed, seen)
	}
	if found[stalled].status == "True" {
		b.addAt(life, v, ": %s and %s are both True", k.Ready, stalled)
	}
}

// judgeFlips finds conditions that were lost and restored while only the operator changed objects.
func (b *judgement) judgeFlips(k Kind, life *history.Lifetime) {
	// The first and the last version that were ready in a row, and the first one after them that
	// was not.
	var first, before, given *history.Version
	for i := range life.Versions {
		v := &life.Versions[i]
		found, _ := conditions(v.Object)
		isTrue := k.Ready != "" && found[k.Ready].status == "True"
		isReady := isTrue && reportsReady(k, v) // for this generation
		if before != nil && before.Object.GetGeneration() != v.Object.GetGeneration() {
			before, given = nil, nil
		}
		switch {
		case isReady && given != nil && !b.caused(b.lastRest(first, given), v):
			b.addViolation("%s: %s was True at %s, not at %s, and True again at %s, and no input had changed",
				life.Identity(), k.Ready, before.RevisionRange, given.RevisionRange, v.RevisionRange).
				revision(before.RevisionRange).revision(given.RevisionRange).revision(v.RevisionRange)
			first, before, given = v, v, nil
		case isReady && before != nil && given == nil:
			before = v
		case isReady:
			first, before, given = v, v, nil
		case !isTrue && before != nil && given == nil:
			given = v
		}
	}
}

// lastRest returns the end of the last converged checkpoint between two versions, or else the first
// version. A cause is later: the operator may write to the object before it observes the cause.
func (b *judgement) lastRest(from, to *history.Version) *history.Version {
	last := from
	for _, m := range b.History.Checkpoints {
		if end := history.At(m.To); m.Converged && last.Before(end) && end.Before(to.RevisionRange) {
			last = &history.Version{RevisionRange: end, At: m.Ended}
		}
	}
	return last
}

// caused reports whether anything but the operator did something from one version to
// another: a fault, another writer, or what is outside the cluster.
func (b *judgement) caused(from, to *history.Version) bool {
	return slices.ContainsFunc(b.History.Faults,
		func(f history.FaultRecord) bool { return f.Happened > 0 && !f.Began.After(to.At) }) ||
		slices.ContainsFunc(b.History.Requests, func(r history.Request) bool {
			return !b.ours(r) && r.Done() && !r.Before(from.RevisionRange) && !to.Before(r.RevisionRange)
		}) ||
		slices.ContainsFunc(b.History.Calls, func(c history.Call) bool {
			return c.Outcome != history.Done && !c.Ended.Before(from.At) && !c.Began.After(to.At)
		})
}

// desired are the children of one object at one generation, at the checkpoints of clean runs.
type desired map[string][]state

// judgeBecomesReady compares the children of an object, at the very version at which it
// becomes Ready, with those at rest in clean runs.
func (b *judgement) judgeBecomesReady() {
	if len(b.References) < 2 {
		return
	}
	want := desired{}
	for _, h := range b.References {
		want.add(h, b.Contract)
	}
	normal := b.History.Normalizer()
	for _, k := range b.Contract.Kinds {
		for _, life := range b.index.Lifetimes(k.Resource) {
			for i := range life.Versions {
				v := &life.Versions[i]
				if k.Ready == "" || !reportsReady(k, v) || i > 0 && reportsReady(k, &life.Versions[i-1]) {
					continue
				}
				name := normal.Replace(life.String())
				if children := want[generationOf(name, v)]; len(children) > 1 {
					b.checked++
					b.judgeChildren(k, life, v, childrenOf(stateIn(b.History, b.index, b.comparison,
						history.Checkpoint{RevisionRange: v.RevisionRange}, comparison.concerns), life), children)
				}
			}
		}
	}
}

// add records an object's children at each checkpoint at which it is Ready.
func (d desired) add(h *history.History, o Contract) {
	normal, index := h.Normalizer(), h.Index()
	for _, m := range h.Checkpoints {
		if !m.AtRest() {
			continue
		}
		var all state // which takes time, so only where something is Ready
		for _, k := range o.Kinds {
			for _, life := range index.Lifetimes(k.Resource) {
				if now := at(life, m); now != nil && k.Ready != "" && reportsReady(k, now) {
					if all == nil {
						all = stateIn(h, index, comparison{Contract: o}, m, comparison.concerns)
					}
					key := generationOf(normal.Replace(life.String()), now)
					d[key] = append(d[key], childrenOf(all, life))
				}
			}
		}
	}
}

func generationOf(name string, v *history.Version) string {
	return fmt.Sprintf("%s at generation %d", name, v.Object.GetGeneration())
}

// childrenOf returns the children of one object: others may share its name.
func childrenOf(all state, owner *history.Lifetime) state {
	children := state{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].parent == owner {
			children.add(all[name])
		}
	}
	return children
}

func (b *judgement) judgeChildren(k Kind, life *history.Lifetime, v *history.Version, got state, want []state) {
	becomes := fmt.Sprintf("%s becomes %s at %s,", life.Identity(), k.Ready, v.RevisionRange)
	for _, name := range slices.Sorted(maps.Keys(want[0])) {
		like := want[0][name]
		everywhere := !slices.ContainsFunc(want[1:], func(w state) bool { _, there := w[name]; return !there })
		have, there := got[name]
		if !everywhere || b.meddled(name) {
			continue
		}
		if !there {
			b.addViolation("%s when %s does not exist", becomes, name).revision(v.RevisionRange)
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(like.fields)) {
			_, _, steady := steadyField(name, path, want)
			if steady && k.settles(like.key.Resource, path) && have.fields[path] != like.fields[path] {
				b.addViolation("%s when %s (%s) has %s %q and not %q", becomes, name, have.where, path[1:], have.fields[path],
					like.fields[path]).revision(v.RevisionRange).revision(have.revision)
			}
		}
	}
}

// meddled reports whether a user or a fault has written to an object: its state then is not the operator's.
func (b *judgement) meddled(name string) bool {
	normal := b.History.Normalizer()
	return b.touched()[name] || slices.ContainsFunc(b.History.Requests, func(r history.Request) bool {
		return r.Done() && !b.ours(r) && isPerson(r.User) && normal.Replace(r.Key.String()) == name
	})
}

// settles reports whether a field of a child is as at rest whenever its owner is Ready.
func (k Kind) settles(of history.Resource, path string) bool {
	if !strings.HasPrefix(path, ".metadata") && !strings.HasPrefix(path, ".status") {
		return true
	}
	return slices.ContainsFunc(k.Children,
		func(c Child) bool { return c.Resource == of && slices.Contains(c.Settled, path[1:]) })
}
