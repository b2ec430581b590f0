// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// TruthfulStatus reads every version of every status.
var TruthfulStatus = Invariant{
	Name: "truthful-status",
	Bug:  "https://github.com/project-koku/koku-service-operator/pull/176",
	Promise: "a status is never about a future generation, does not go back, keeps transition times of unchanged " +
		"conditions, and reports Ready only when converged: in every version",
	needs: []history.Source{history.Watch, history.Audit},
	judge: judgeHonestStatus,
}

func judgeHonestStatus(b *judgement) {
	for _, k := range b.Contract.Kinds {
		for _, life := range b.index.Lifetimes(k.Resource) {
			for i := range life.Versions {
				b.checked++
				b.judgeStatus(life, life.Versions[i])
				b.judgeAgreement(k, life, life.Versions[i])
				if i > 0 {
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
func (b *judgement) judgeStatus(life *history.Lifetime, v history.Version) {
	found, twice := conditions(v.Object)
	for _, name := range twice {
		b.addAt(life, v, " has the condition %s twice", name)
	}
	generation := v.Object.GetGeneration()
	if seen := observed(v.Object); seen > generation {
		b.addAt(life, v, ": its status is about generation %d, and it is at %d", seen, generation)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c := found[name]
		if c.observed > generation {
			b.addAt(life, v, ": %s is about generation %d, and it is at %d", name, c.observed, generation)
		}
		if !slices.Contains([]string{"True", "False", "Unknown"}, c.status) {
			b.addAt(life, v, ": %s has the status %q", name, c.status)
		}
	}
}

// judgeStep looks at what one write has changed.
func (b *judgement) judgeStep(life *history.Lifetime, before, after history.Version) {
	if was, is := observed(before.Object), observed(after.Object); is < was {
		b.addViolation("%s: its observedGeneration went back from %d at %s to %d at %s", life.Identity(), was,
			before.RevisionRange, is, after.RevisionRange).revision(before.RevisionRange).revision(after.RevisionRange)
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
			b.addViolation("%s: %s went back from generation %d at %s to %d at %s", life.Identity(), name, was.observed,
				before.RevisionRange, is.observed, after.RevisionRange).revision(before.RevisionRange).revision(after.RevisionRange)
		}
		switch {
		case is.status == was.status && is.since != was.since:
			b.addViolation("%s: %s is %s at %s as at %s, but its lastTransitionTime moved from %s to %s", life.Identity(), name,
				is.status, after.RevisionRange, before.RevisionRange, was.since, is.since).
				revision(after.RevisionRange).revision(before.RevisionRange)
		case is.status != was.status:
			b.judgeFlip(life, name, was, is, after)
		}
	}
}

// sameTime bounds the distance of two changes with the same time: conditions have whole seconds,
// and a write takes some time.
const sameTime = 3 * time.Second

// judgeFlip judges the time of a condition whose status has changed.
func (b *judgement) judgeFlip(life *history.Lifetime, name string, was, is condition, after history.Version) {
	then, errThen := time.Parse(time.RFC3339, was.since)
	since, errSince := time.Parse(time.RFC3339, is.since)
	became := fmt.Sprintf("%s: %s became %s at %s", life.Identity(), name, is.status, after.RevisionRange)
	switch {
	case was.since == "" && is.since == "": // conditions of such a kind have no times
	case errThen != nil || errSince != nil:
		b.addViolation("%s without a lastTransitionTime (%q, then %q)", became, was.since, is.since).
			revision(after.RevisionRange)
	case since.Before(then):
		b.addViolation("%s and its lastTransitionTime went back from %s to %s", became, was.since, is.since).
			revision(after.RevisionRange)
	case !since.Equal(then):
	case after.At.IsZero():
		b.addDoubt("%s with the same lastTransitionTime; the time of the change was not recorded", became)
	case after.At.Sub(since) > sameTime && b.sent(after).Sub(since) > sameTime:
		b.addViolation("%s, %s after its lastTransitionTime %s, which did not change", became,
			after.At.Sub(since).Round(time.Second), is.since).revision(after.RevisionRange)
	}
}

// sent returns the earliest time at which a version can have been sent: a fault may have made its writer late.
func (b *judgement) sent(v history.Version) time.Time {
	if writer, known := b.writers()[v.RevisionRange]; known {
		if f := b.lateBy(writer.Replica, writer.Received); f != nil {
			return f.Began
		}
	}
	return v.At
}

// judgeReady finds objects that report Ready while they, or their children, differ from clean runs.
func (b *judgement) judgeReady() {
	if len(b.References) == 0 {
		return // then only the status itself is judged
	}
	b.compared(comparison.concerns, func(m history.Checkpoint, _ state, found []difference) {
		normal := b.History.Normalizer()
		for _, k := range b.Contract.Kinds {
			for _, life := range b.index.Lifetimes(k.Resource) {
				now := at(life, m)
				if now == nil || !reportsReady(k, now) {
					continue
				}
				name := normal.Replace(life.String())
				for _, d := range found {
					if d.owner == name || d.name == name {
						b.addViolation("%s is %s at %s, and at %q %s", life.Identity(), k.Ready, now.RevisionRange, m.Name, d.text).
							revision(now.RevisionRange).checkpoint(m).refer(d.references...)
					}
				}
			}
		}
	})
}
