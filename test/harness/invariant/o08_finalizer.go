package invariant

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// FinalizerOrder looks at what was made and removed around the finalizer.
var FinalizerOrder = Invariant{
	ID: "O8", Name: "finalizer order",
	Promise: "nothing is made for an object before its finalizer is stored; the finalizer stays until what was made is known to be gone; " +
		"nothing is made afterwards; and an object that is to go does go",
	judge: judgeFinalizerOrder,
}

func judgeFinalizerOrder(b *bench) {
	if !b.needs(history.Audit, history.Watch) {
		return
	}
	writers := b.writers()
	for _, k := range b.Operator.Kinds {
		if k.Finalizer == "" {
			continue
		}
		if k.External {
			b.needs(history.External) // the children can be judged without
		}
		for _, life := range b.index.Lives(k.Resource) {
			h := holding(life, k.Finalizer)
			b.judgeMade(k, life, h, writers)
			b.judgeRelease(k, life, h)
			b.judgeStuck(k, life)
		}
	}
}

// hold is how long a finalizer held an object.
type hold struct {
	added    *history.Version // nil if it was never seen
	released *history.Span    // nil if it holds still
}

func holding(life *history.Life, finalizer string) hold {
	var h hold
	for i, v := range life.Versions {
		held := slices.Contains(v.Object.GetFinalizers(), finalizer)
		switch {
		case held && h.added == nil:
			h.added = &life.Versions[i]
		case !held && h.added != nil && h.released == nil && v.Object.GetDeletionTimestamp() != nil:
			h.released = &life.Versions[i].Span
		}
	}
	if h.added != nil && h.released == nil && life.End != nil {
		// To take the last finalizer off is what ended it.
		h.released = &life.End.Span
	}
	return h
}

// judgeMade looks at everything that was made for an object.
func (b *bench) judgeMade(k Kind, life *history.Life, h hold, writers map[history.Span]history.Request) {
	judge := func(what string, s history.Span) {
		b.checked++
		switch {
		case h.added == nil:
			b.broken("%s (UID %s): %s, and the finalizer %s was never stored", life.Key, life.UID, what, k.Finalizer)
		case s.Before(h.added.Span):
			b.broken("%s (UID %s): %s, before the finalizer %s was stored at %s", life.Key, life.UID, what, k.Finalizer, h.added.Span)
		case !h.added.Before(s):
			b.doubt("%s (UID %s): %s; whether the finalizer was stored before, at %s, cannot be told", life.Key, life.UID, what, h.added.Span)
		case h.released == nil:
		case h.released.Before(s):
			b.broken("%s (UID %s): %s, after the finalizer %s was removed %s", life.Key, life.UID, what, k.Finalizer, *h.released)
		case !s.Before(*h.released):
			b.doubt("%s (UID %s): %s; whether the finalizer was removed before, %s, cannot be told", life.Key, life.UID, what, *h.released)
		}
	}
	for _, c := range k.Children {
		for _, child := range b.made(c, life.UID) {
			first := child.Versions[0]
			// Others may copy a child, with its marks. That is theirs to answer for.
			if r, known := writers[first.Span]; known && b.ours(r) && r.Made {
				judge(r.String(), first.Span)
			}
		}
	}
	for _, call := range b.History.Calls {
		if call.Action == history.Create && call.Owner == life.UID && call.Outcome != history.Failed {
			judge(call.String(), call.Span)
		}
	}
}

// judgeRelease looks at what was still there when the finalizer was removed.
func (b *bench) judgeRelease(k Kind, life *history.Life, h hold) {
	if h.released == nil || k.keeps(life) || b.byOthers(life, *h.released) {
		return
	}
	for _, c := range k.Children {
		if !c.Awaited {
			continue
		}
		for _, child := range b.made(c, life.UID) {
			b.checked++
			switch {
			case child.End == nil, h.released.Before(child.End.Span):
				b.broken("%s (UID %s): its finalizer was removed %s, while %s (UID %s) was still there", life.Key, life.UID, *h.released, child.Key, child.UID)
			case !child.End.Before(*h.released):
				b.doubt("%s (UID %s): its finalizer was removed %s, and whether %s was gone by then (%s) cannot be told",
					life.Key, life.UID, *h.released, child.Key, child.End.Span)
			}
		}
	}
	things := b.thingsOf(life.UID)
	for _, thing := range slices.Sorted(maps.Keys(things)) {
		b.checked++
		b.judgeConfirmed(life, *h.released, thing, things[thing])
	}
}

// byOthers reports whether somebody else is known to have let an object go.
func (b *bench) byOthers(life *history.Life, released history.Span) bool {
	return slices.ContainsFunc(b.History.Requests, func(r history.Request) bool {
		return r.UID == life.UID && r.Span == released && r.Done() && !b.ours(r)
	})
}

// thingsOf are the calls that last made each of an object's things.
func (b *bench) thingsOf(uid types.UID) map[string]history.Call {
	things := map[string]history.Call{}
	for _, call := range b.History.Calls {
		if call.Action == history.Create && call.Owner == uid && call.Outcome != history.Failed && call.Outcome != history.Absent {
			things[call.Thing] = call
		}
	}
	return things
}

// judgeConfirmed looks for an answer, which the operator got, that the thing is gone.
func (b *bench) judgeConfirmed(life *history.Life, released history.Span, thing string, made history.Call) {
	unordered := ""
	accepted := ""
	for _, call := range b.History.Calls {
		if call.Thing != thing || !call.Delivered || call.Began.Before(made.Ended) {
			continue
		}
		if call.Action == history.Delete && call.Outcome == history.Accepted {
			accepted = "; that a removal was accepted is no proof"
		}
		if call.Outcome != history.Absent && (call.Action != history.Delete || call.Outcome != history.Done) {
			continue
		}
		switch {
		case call.Before(released):
			return
		case !released.Before(call.Span):
			unordered = call.String()
		}
	}
	if unordered != "" {
		b.doubt("%s (UID %s): whether its finalizer was removed (%s) only after the %s cannot be told", life.Key, life.UID, released, unordered)
		return
	}
	b.broken("%s (UID %s): its finalizer was removed %s, and nobody had said that external %s was gone, made by the %s%s",
		life.Key, life.UID, released, thing, made, accepted)
}

// judgeStuck looks at objects that are still on their way out when all is at rest.
func (b *bench) judgeStuck(k Kind, life *history.Life) {
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
		return // somebody else's holds it
	}
	if ready, _ := conditions(last.Object); slices.Contains(k.Waiting, ready[k.Ready].reason) {
		return
	}
	for _, m := range b.History.Marks {
		if m.Converged && leaving.Before(m.Span) {
			b.broken("%s (UID %s): on its way out since %s, and the finalizer %s still held it at %q", life.Key, life.UID, leaving.Span, k.Finalizer, m.Name)
			return
		}
	}
	b.doubt("%s (UID %s): on its way out since %s when the history ends, and nothing says how long it had", life.Key, life.UID, leaving.Span)
}
