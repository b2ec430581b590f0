// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// busy marks the last checkpoint as one at which the operator is not done.
func busy() step {
	return step{func(s *script) { s.Checkpoints[len(s.Checkpoints)-1].Busy = true }}
}

// What an operator has made that is not done depends on when one looks, so it proves nothing.
func TestBusyCheckpoint(t *testing.T) {
	g := NewWithT(t)
	run := func(more ...step) *history.History {
		steps := []step{writes("alice", thing()), writes("a", part("p", "p1")),
			rests("made", writes("a", part("q", "q1")))}
		return play(append(steps, more...)...)
	}
	late := play(writes("alice", thing()), writes("a", part("p", "p1")), writes("a", part("r", "r1")),
		rests("made", writes("a", part("q", "q1"))))
	clean := []*history.History{run(), run()}
	for _, i := range []invariant.Invariant{invariant.EndState, invariant.SingleLifecycle, invariant.Quiescence} {
		c := invariant.Case{History: late, References: clean, Contract: operator()}
		if i.Name == invariant.Quiescence.Name {
			c.References = nil // it would be as in clean runs
		}
		late.Checkpoints[0].Busy = false
		g.Expect(i.Judge(c).Result).To(Equal(invariant.Broken), i.Name)
		late.Checkpoints[0].Busy = true
		g.Expect(i.Judge(c).Result).NotTo(Equal(invariant.Broken), i.Name)
	}
	rested := run(busy(), rests("gone", writes("a", part("s", "s1"))))
	g.Expect(invariant.Quiescence.Judge(invariant.Case{History: rested, Contract: operator()}).Violations).
		To(ConsistOf(HaveField("Message", ContainSubstring(`ns/s`))), "other checkpoints are judged")
}
