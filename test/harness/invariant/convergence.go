// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"strings"

	"leasehold.dev/test/harness/history"
)

// Convergence checks that the desired state was reached, and stayed.
var Convergence = Invariant{
	Name:    "convergence",
	Bug:     "https://github.com/rabbitmq/messaging-topology-operator/issues/277",
	Promise: "the operator converges in time, for the current generation, and stays converged",
	needs:   []history.Source{history.Watch},
	judge:   judgeSettled,
}

func judgeSettled(b *judgement) {
	if len(b.History.Checkpoints) == 0 {
		b.addDoubt("the history has no checkpoint: the run never waited until the operator was idle")
	}
	if len(b.History.Faults) == 0 {
		for _, r := range b.History.Rejections {
			if r.Unexpected() {
				b.addDoubt("%s, which the scenario does not expect", r)
			}
		}
	}
	for _, m := range b.History.Checkpoints {
		b.checked++
		if !m.Converged {
			b.judgeUnreached(m)
			continue
		}
		if m.Busy {
			continue
		}
		for _, k := range b.Contract.Kinds {
			if k.Ready == "" {
				continue
			}
			for _, life := range b.index.Lifetimes(k.Resource) {
				if now := at(life, m); now != nil {
					b.judgeSteady(k, life, m, now)
				}
			}
		}
	}
}

// judgeUnreached judges a checkpoint whose conditions were not met. After a rejected step the
// operator may be unable to meet them.
func (b *judgement) judgeUnreached(m history.Checkpoint) {
	text := fmt.Sprintf("at %q the desired state was not reached in time", m.Name)
	if !m.Reached.IsZero() {
		text = fmt.Sprintf("at %q the desired state was reached, and did not last", m.Name)
	}
	if len(m.Unmet) > 0 {
		text += ": " + strings.Join(m.Unmet, ", ")
	}
	if rejected := b.rejectedBefore(m); len(rejected) > 0 {
		b.addDoubt("%s; %s", text, rejected[0])
		return
	}
	b.addViolation("%s", text).checkpoint(m)
}

// judgeSteady judges one object at one checkpoint.
func (b *judgement) judgeSteady(k Kind, life *history.Lifetime, m history.Checkpoint, now *history.Version) {
	found, _ := conditions(now.Object)
	ready, there := found[k.Ready]
	if now.Object.GetDeletionTimestamp() != nil {
		return // whether it may still be there is finalizer-order's
	}
	generation := now.Object.GetGeneration()
	for _, seen := range []int64{ready.observed, observed(now.Object)} {
		if seen != 0 && seen != generation {
			b.addAt(life, *now, ": at %q its status is about generation %d, not %d", m.Name, seen, generation).checkpoint(m)
		}
	}
	if !there {
		b.addAt(life, *now, ": at %q it has no condition %s", m.Name, k.Ready).checkpoint(m)
		return
	}
	for _, v := range life.Versions {
		if !m.Contains(v.RevisionRange, v.At) {
			continue
		}
		if then, _ := conditions(v.Object); then[k.Ready].status != ready.status {
			b.addViolation("%s: during %q %s was %q at %s and %q at %s", life.Identity(), m.Name, k.Ready, then[k.Ready].status,
				v.RevisionRange, ready.status, now.RevisionRange).checkpoint(m).revision(v.RevisionRange).
				revision(now.RevisionRange)
		}
	}
}
