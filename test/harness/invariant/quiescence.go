// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// Quiescence looks for writes while there is nothing to do.
var Quiescence = Invariant{
	Name:    "quiescence",
	Bug:     "https://github.com/operator-framework/operator-lifecycle-manager/pull/1816",
	Promise: "a converged operator writes nothing but its Lease",
	needs:   []history.Source{history.Audit},
	judge:   judgeQuiet,
}

func judgeQuiet(b *judgement) {
	rested := false
	for _, m := range b.History.Checkpoints {
		if !m.AtRest() {
			continue
		}
		rested = true
		b.judgeRest(m)
	}
	if !rested {
		b.addDoubt("the history has no checkpoint")
	}
	b.judgeThrift()
}

// judgeRest judges one checkpoint. An operator that has stopped does not write either, so a renewal
// of the Lease must show that it runs.
func (b *judgement) judgeRest(m history.Checkpoint) {
	b.checked++
	if lasted := m.Ended.Sub(m.Began); lasted < b.Contract.Limits.Quiet.Duration {
		b.addDoubt("%q lasted %s, the minimum is %s", m.Name, lasted.Round(time.Millisecond),
			b.Contract.Limits.Quiet.Duration)
	}
	alive := false
	for _, r := range b.History.Requests {
		if !b.ours(r) || !r.Write() || !m.Contains(r.RevisionRange, r.Received) {
			continue
		}
		if r.Key == b.Contract.Lease {
			alive = alive || r.Effect == history.Stored
			continue
		}
		if b.endsSeries(r, m) || b.starts(r) {
			continue
		}
		b.addViolation("%s, during %q", r, m.Name).request(r).checkpoint(m)
	}
	if !alive {
		b.addDoubt("during %q no replica renewed the Lease, so the silence proves nothing", m.Name)
	}
}

// starts reports whether the request is a part of the start of its process: it came before the first request for the
// Lease, or it is the first write to the object and changed nothing. A replica without an HTTP probe may still start
// during a checkpoint.
func (b *judgement) starts(r history.Request) bool {
	started := b.startOf(r.Replica, r.Received)
	elected, later, wrote := false, false, false
	for _, o := range b.History.Requests {
		before := o.Received.Before(r.Received)
		switch {
		case o.Replica != r.Replica || r.Replica == "" || o.Received.Before(started):
		case o.Key == b.Contract.Lease:
			elected, later = elected || before, later || !before
		case o.Key == r.Key:
			wrote = wrote || before && o.Write()
		}
	}
	if !elected {
		return later
	}
	return !wrote && r.Effect == history.Unchanged
}

// endsSeries reports whether the request wrote how often an event occurred before the checkpoint.
// The recorder of client-go writes that 6 to 12 minutes after the last event of a series, and
// sometimes twice. The first time may have been in an earlier run, like all else about the event.
func (b *judgement) endsSeries(r history.Request, m history.Checkpoint) bool {
	ends := func(w history.Request) bool {
		return w.Key == r.Key && w.Effect == history.Stored &&
			slices.ContainsFunc(b.History.Events, func(e history.Event) bool {
				return e.RevisionRange == w.RevisionRange && !e.First && !e.Observed.IsZero() && e.Observed.Before(m.Began)
			})
	}
	if r.Effect != history.Unchanged || r.Resource.Resource != "events" {
		return ends(r)
	}
	written := func(w history.Request) bool { return w.Key == r.Key && w.Effect == history.Stored }
	return slices.ContainsFunc(b.History.Requests, ends) || !slices.ContainsFunc(b.History.Requests, written)
}

// judgeThrift counts the writes to an object between two checkpoints that change nothing, and the
// writes for one generation. An object that has another UID is another one: what users make again
// and again may cost the same each time. So does the same object for each replica, which cannot know what
// another one has written.
func (b *judgement) judgeThrift() {
	type generation struct {
		uid types.UID
		of  int64
	}
	type visit struct {
		history.Key
		uid     types.UID
		replica string
		after   int // checkpoints
	}
	unchanged, written := map[visit]int{}, map[generation]int{}
	limits := b.Contract.Limits
	for _, r := range b.History.Requests {
		if !b.ours(r) || b.electing(r) {
			continue
		}
		switch r.Effect {
		case history.Unchanged:
			at := visit{r.Key, r.UID, r.Replica, b.History.CheckpointsBefore(r.Received)}
			unchanged[at]++
			if n := unchanged[at]; limits.Unchanged > 0 && n == limits.Unchanged+1 {
				b.addViolation("%s changed nothing, like %d writes to it before: at most %d are allowed", r, n-1, limits.Unchanged).request(r)
			}
		case history.Stored:
			life := b.index.Lifetime(r.UID)
			if life == nil || !slices.ContainsFunc(b.Contract.Kinds, func(k Kind) bool { return k.Resource == r.Resource }) {
				continue
			}
			i := slices.IndexFunc(life.Versions, func(v history.Version) bool { return v.RevisionRange == r.RevisionRange })
			if i < 0 {
				continue
			}
			g := generation{r.UID, life.Versions[i].Object.GetGeneration()}
			written[g]++
			if n := written[g]; limits.PerGeneration > 0 && n == limits.PerGeneration+1 {
				b.addViolation("%s is write %d for generation %d of UID %s: at most %d are allowed", r, n, g.of, r.UID,
					limits.PerGeneration).request(r)
			}
		default:
		}
	}
}
