package invariant

import (
	"maps"
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// HonestStatus reads every version of every status.
var HonestStatus = Invariant{
	ID: "O10", Name: "honest status",
	Promise: "a status never speaks of a generation that is not there yet, nor goes back; a condition's time moves when its status does and only then; " +
		"and no version, in passing or at rest, says Ready of what is not as desired",
	judge: judgeHonestStatus,
}

func judgeHonestStatus(b *bench) {
	if !b.needs(history.Audit, history.Watch) {
		return
	}
	for _, k := range b.Operator.Kinds {
		for _, life := range b.index.Lives(k.Resource) {
			for i := range life.Versions {
				b.checked++
				b.judgeStatus(life, life.Versions[i])
				b.judgeAgreement(k, life, life.Versions[i])
				if i > 0 && b.adjacent(life, life.Versions[i-1], life.Versions[i]) {
					b.judgeStep(life, life.Versions[i-1], life.Versions[i])
				}
			}
			b.judgeFlips(k, life)
		}
	}
	b.judgeReady()
	b.judgeBecomesReady()
}

// judgeStatus looks at one version by itself.
func (b *bench) judgeStatus(life *history.Life, v history.Version) {
	found, twice := conditions(v.Object)
	for _, name := range twice {
		b.broken("%s (UID %s) at %s has the condition %s twice", life.Key, life.UID, v.Span, name)
	}
	generation := v.Object.GetGeneration()
	if seen := observed(v.Object); seen > generation {
		b.broken("%s (UID %s) at %s: its status is about generation %d, and it is at %d", life.Key, life.UID, v.Span, seen, generation)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c := found[name]
		if c.observed > generation {
			b.broken("%s (UID %s) at %s: %s is about generation %d, and it is at %d", life.Key, life.UID, v.Span, name, c.observed, generation)
		}
		if !slices.Contains([]string{"True", "False", "Unknown"}, c.status) {
			b.broken("%s (UID %s) at %s: %s has the status %q", life.Key, life.UID, v.Span, name, c.status)
		}
	}
}

// adjacent reports whether one version is known to follow the other. A watch sees
// all; an audit log has no answer of a write that was stored and answered with a
// timeout, or that its policy records without bodies.
func (b *bench) adjacent(life *history.Life, before, after history.Version) bool {
	if b.History.Has(history.Watch) {
		return true
	}
	for _, r := range b.History.Requests {
		if r.Key != life.Key || !r.Done() && r.Effect != history.Unknown || r.Span == before.Span || r.Span == after.Span {
			continue
		}
		if !r.Before(before.Span) && !after.Before(r.Span) {
			b.doubt("%s (UID %s): between %s and %s something may be missing: %s", life.Key, life.UID, before.Span, after.Span, r)
			return false
		}
	}
	return true
}

// judgeStep looks at what one write has changed.
func (b *bench) judgeStep(life *history.Life, before, after history.Version) {
	if was, is := observed(before.Object), observed(after.Object); is < was {
		b.broken("%s (UID %s): its observedGeneration went back from %d at %s to %d at %s", life.Key, life.UID, was, before.Span, is, after.Span)
	}
	old, _ := conditions(before.Object)
	now, _ := conditions(after.Object)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, known := old[name]
		is := now[name]
		if !known {
			continue
		}
		if is.observed < was.observed {
			b.broken("%s (UID %s): %s went back from generation %d at %s to %d at %s", life.Key, life.UID, name, was.observed, before.Span, is.observed, after.Span)
		}
		switch {
		case is.status == was.status && is.since != was.since:
			b.broken("%s (UID %s): %s is %s at %s as at %s, but its lastTransitionTime moved from %s to %s",
				life.Key, life.UID, name, is.status, after.Span, before.Span, was.since, is.since)
		case is.status != was.status:
			b.judgeFlip(life, name, was, is, after)
		}
	}
}

// sameTime is how far apart two changes may be that have the same time: conditions
// have whole seconds, and a write takes its time.
const sameTime = 3 * time.Second

// judgeFlip looks at the time of a condition whose status has changed.
func (b *bench) judgeFlip(life *history.Life, name string, was, is condition, after history.Version) {
	then, errThen := time.Parse(time.RFC3339, was.since)
	since, errSince := time.Parse(time.RFC3339, is.since)
	switch {
	case errThen != nil || errSince != nil:
		b.broken("%s (UID %s): %s became %s at %s without a lastTransitionTime (%q, then %q)", life.Key, life.UID, name, is.status, after.Span, was.since, is.since)
	case since.Before(then):
		b.broken("%s (UID %s): %s became %s at %s and its lastTransitionTime went back from %s to %s", life.Key, life.UID, name, is.status, after.Span, was.since, is.since)
	case !since.Equal(then):
	case after.At.IsZero():
		b.doubt("%s (UID %s): %s became %s at %s with the same lastTransitionTime; when that was is not recorded", life.Key, life.UID, name, is.status, after.Span)
	case after.At.Sub(since) > sameTime:
		b.broken("%s (UID %s): %s became %s at %s, %s after the lastTransitionTime %s that it kept", life.Key, life.UID, name, is.status, after.Span,
			after.At.Sub(since).Round(time.Second), is.since)
	}
}

// judgeReady looks for objects that say Ready while they, or what was made for them,
// are not as in clean runs.
func (b *bench) judgeReady() {
	if len(b.References) == 0 {
		return // then only what a status says by itself is judged
	}
	b.compared(Operator.concerns, func(m history.Mark, _ state, found []difference) {
		normal := b.History.Normal()
		for _, k := range b.Operator.Kinds {
			for _, life := range b.index.Lives(k.Resource) {
				now := at(life, m)
				if now == nil || !saysReady(k, now) {
					continue
				}
				name := normal.Replace(life.String())
				for _, d := range found {
					if d.owner == name || d.name == name {
						b.broken("%s (UID %s) is %s at %s, and at %q %s", life.Key, life.UID, k.Ready, now.Span, m.Name, d.text)
					}
				}
			}
		}
	})
}
