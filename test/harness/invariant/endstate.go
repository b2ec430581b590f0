// SPDX-License-Identifier: Apache-2.0

package invariant

import "leasehold.dev/test/harness/history"

// EndState compares all objects, with their status, with clean runs.
var EndState = Invariant{
	Name:    "end-state",
	Bug:     "https://github.com/rabbitmq/cluster-operator/issues/782",
	Promise: "at a checkpoint every object is as in clean runs and as at the checkpoint that it names, with its conditions",
	needs:   []history.Source{history.Watch, history.Audit},
	judge: func(b *judgement) {
		b.judgeLike()
		b.compared(comparison.concerns, func(m history.Checkpoint, got state, found []difference) {
			b.checked += max(1, len(got))
			for _, d := range found {
				b.addViolation("at %q %s", m.Name, d.text).checkpoint(m).object(d.object).refer(d.references...)
			}
		})
	},
}
