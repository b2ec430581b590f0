// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// FinalizerOrder looks at what was made and removed around the finalizer.
var FinalizerOrder = Invariant{
	Name: "finalizer-order",
	Bug:  "https://github.com/pingcap/tidb-operator/issues/6532",
	Promise: "nothing is created before the finalizer is stored or after it is removed; the finalizer stays until " +
		"the children are gone, and is removed in time",
	judge: judgeFinalizerOrder,
}

func judgeFinalizerOrder(b *judgement) {
	if !b.hasSource(history.Audit, history.Watch) {
		return
	}
	writers := b.writers()
	for _, k := range b.Contract.Kinds {
		if k.Finalizer == "" {
			continue
		}
		if k.External {
			b.hasSource(history.External) // the children can be judged without
		}
		for _, life := range b.index.Lifetimes(k.Resource) {
			h := holding(life, k.Finalizer)
			b.judgeMade(k, life, h, writers)
			b.judgeRelease(k, life, h)
			b.judgeStuck(k, life)
		}
	}
}

// hold is the time for which an object had a finalizer.
type hold struct {
	added    *history.Version       // nil if it was not observed
	released *history.RevisionRange // nil if it was not removed
}

func holding(life *history.Lifetime, finalizer string) hold {
	var h hold
	for i, v := range life.Versions {
		held := slices.Contains(v.Object.GetFinalizers(), finalizer)
		switch {
		case held && h.added == nil:
			h.added = &life.Versions[i]
		case !held && h.added != nil && h.released == nil && v.Object.GetDeletionTimestamp() != nil:
			h.released = &life.Versions[i].RevisionRange
		}
	}
	if h.added != nil && h.released == nil && life.End != nil {
		// The removal of the last finalizer ended the object.
		h.released = &life.End.RevisionRange
	}
	return h
}

// judgeMade looks at everything that was made for an object.
func (b *judgement) judgeMade(k Kind, life *history.Lifetime, h hold,
	writers map[history.RevisionRange]history.Request) {
	judge := func(what string, by []HistoryRef, s history.RevisionRange) {
		b.checked++
		made := life.Identity() + ": " + what
		switch {
		case h.added == nil:
			b.addViolation("%s, but the finalizer %s was never stored", made, k.Finalizer).refer(by...)
		case s.Before(h.added.RevisionRange):
			b.addViolation("%s, before the finalizer %s was stored at %s", made, k.Finalizer, h.added.RevisionRange).
				refer(by...).revision(h.added.RevisionRange)
		case !h.added.Before(s):
			b.addDoubt("%s; the history does not show whether the finalizer was stored before, at %s", made,
				h.added.RevisionRange)
		case h.released == nil:
		case h.released.Before(s):
			b.addViolation("%s, after the finalizer %s was removed %s", made, k.Finalizer, h.released.When()).
				refer(by...).revision(*h.released)
		case !s.Before(*h.released):
			b.addDoubt("%s; the history does not show whether the finalizer was removed before %s", made, h.released.When())
		}
	}
	for _, c := range k.Children {
		for _, child := range b.made(c, life) {
			first := child.Versions[0]
			if owner := c.ownerOf(b.index, k.Resource, first); owner != nil && owner != life {
				continue // it was made for another object, and handed over later
			}
			// Other clients may copy a child with its marks, which is not the operator's fault.
			if r, known := writers[first.RevisionRange]; known && b.ours(r) && r.Made {
				judge(r.String(), requestAndRevision(r), first.RevisionRange)
			}
		}
	}
	for _, call := range b.History.Calls {
		if call.Action == history.Create && call.Owner == life.UID && call.Outcome != history.Failed {
			judge(call.String(), []HistoryRef{{Call: call.ID}}, call.RevisionRange)
		}
	}
}

// judgeRelease looks at what was still there when the finalizer was removed.
func (b *judgement) judgeRelease(k Kind, life *history.Lifetime, h hold) {
	if h.released == nil || k.keeps(life) || b.byOthers(life, *h.released) {
		return
	}
	for _, c := range k.Children {
		if !c.Awaited {
			continue
		}
		for _, child := range b.made(c, life) {
			b.checked++
			switch {
			case child.End == nil, h.released.Before(child.End.RevisionRange):
				b.addViolation("%s: its finalizer was removed %s, while %s still existed", life.Identity(), h.released.When(),
					child.Identity()).revision(*h.released).object(b.History.Normalizer().Replace(collapsed(child).String()))
			case !child.End.Before(*h.released):
				b.addDoubt("%s: its finalizer was removed %s, and the history does not show whether %s still existed (%s)",
					life.Identity(), h.released.When(), child.Key, child.End.RevisionRange)
			}
		}
	}
	things := b.thingsOf(life.UID)
	for _, thing := range slices.Sorted(maps.Keys(things)) {
		b.checked++
		b.judgeConfirmed(life, *h.released, thing, things[thing])
	}
}

// byOthers reports whether a recorded request of another client released an object.
func (b *judgement) byOthers(life *history.Lifetime, released history.RevisionRange) bool {
	return slices.ContainsFunc(b.History.Requests, func(r history.Request) bool {
		return r.UID == life.UID && r.RevisionRange == released && r.Done() && !b.ours(r)
	})
}

// thingsOf are the calls that last made each of an object's things.
func (b *judgement) thingsOf(uid types.UID) map[string]history.Call {
	things := map[string]history.Call{}
	for _, call := range b.History.Calls {
		if call.Action == history.Create && call.Owner == uid && call.Outcome != history.Failed &&
			call.Outcome != history.Absent {
			things[call.Thing] = call
		}
	}
	return things
}

// judgeConfirmed requires a response to the operator that the external object does not exist.
func (b *judgement) judgeConfirmed(life *history.Lifetime, released history.RevisionRange, thing string,
	made history.Call) {
	unordered := ""
	accepted := ""
	for _, call := range b.History.Calls {
		if call.Thing != thing || !call.Delivered || call.Began.Before(made.Ended) {
			continue
		}
		if call.Action == history.Delete && call.Outcome == history.Accepted {
			accepted = "; an accepted removal is no proof"
		}
		if call.Outcome != history.Absent && (call.Action != history.Delete || call.Outcome != history.Done) {
			continue
		}
		switch {
		case call.Before(released):
			return
		case !released.Before(call.RevisionRange):
			unordered = call.String()
		}
	}
	if unordered != "" {
		b.addDoubt("%s: the history does not show whether its finalizer was removed (%s) after the %s",
			life.Identity(), released.When(), unordered)
		return
	}
	b.addViolation("%s: its finalizer was removed %s, without an answer that external %s does not exist, created by the %s%s",
		life.Identity(), released.When(), thing, made, accepted).revision(released).call(made)
}

// judgeStuck checks objects that are still terminating when all is at rest.
func (b *judgement) judgeStuck(k Kind, life *history.Lifetime) {
	leaving := life.Terminating()
	if leaving == nil {
		return
	}
	b.checked++
	if life.End != nil {
		return
	}
	last := life.Last()
	if !slices.Contains(last.Object.GetFinalizers(), k.Finalizer) {
		return // another controller's finalizer blocks the deletion
	}
	if ready, _ := conditions(last.Object); slices.Contains(k.Waiting, ready[k.Ready].reason) {
		return
	}
	for _, m := range b.History.Checkpoints {
		if m.Converged && leaving.Before(m.RevisionRange) {
			b.addViolation("%s: terminating since %s, and the finalizer %s was still there at %q", life.Identity(),
				leaving.RevisionRange, k.Finalizer, m.Name).revision(leaving.RevisionRange).checkpoint(m)
			return
		}
	}
	b.addDoubt("%s: terminating since %s when the history ends, without a time limit", life.Identity(),
		leaving.RevisionRange)
}
