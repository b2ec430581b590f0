// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// TenantIsolation bounds what one namespace may cost another. Clean runs are without the
// attack, so what differs from them elsewhere is its cost.
var TenantIsolation = Invariant{
	Name:    "tenant-isolation",
	Bug:     "https://github.com/rook/rook/issues/11330",
	Promise: "an attack from one namespace delays others by a bounded time only, and changes none of their objects",
	judge:   judgeIsolation,
}

// slower is the factor of the clean time by which others may wait longer.
const slower = 2

func judgeIsolation(b *judgement) {
	attacked := slices.ContainsFunc(b.History.Faults, func(f history.FaultRecord) bool { return f.Attack })
	if !attacked || !b.hasSource(history.Watch) || !b.hasSource(history.Audit) {
		return
	}
	for _, m := range b.History.Checkpoints {
		b.judgeDelay(m)
	}
	b.compared(comparison.owned, func(m history.Checkpoint, got state, found []difference) {
		b.checked += len(got)
		for _, d := range found {
			b.addViolation("at %q %s", m.Name, d.text).checkpoint(m).refer(d.references...)
		}
	})
}

// judgeDelay compares how long what is desired elsewhere took with clean runs.
func (b *judgement) judgeDelay(m history.Checkpoint) {
	var clean time.Duration
	known := false
	for _, h := range b.References {
		for _, o := range h.Checkpoints {
			if o.Name == m.Name && !o.Reached.IsZero() {
				clean, known = max(clean, o.Reached.Sub(o.Acted)), true
			}
		}
	}
	switch {
	case b.Contract.Limits.Late.Duration == 0:
		b.addDoubt("the operator has no limit for delays under attack")
	case !known:
		b.addDoubt("no clean run shows how long %q takes", m.Name)
	case m.Reached.IsZero():
		b.checked++
		b.addViolation("at %q the desired state elsewhere was not reached %s after the request, in clean runs after %s",
			m.Name, m.Began.Sub(m.Acted).Round(time.Millisecond), clean.Round(time.Millisecond)).checkpoint(m)
	default:
		b.checked++
		late := m.Reached.Sub(m.Acted) - clean
		if allowed := max(b.Contract.Limits.Late.Duration, slower*clean); late > allowed {
			b.addViolation("at %q the desired state elsewhere was reached %s later than in clean runs (%s): at most %s is allowed",
				m.Name, late.Round(time.Millisecond), clean.Round(time.Millisecond), allowed.Round(time.Millisecond)).checkpoint(m)
		}
	}
}
