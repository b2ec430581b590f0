// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
)

func TestGrowthProblem(t *testing.T) {
	g := NewWithT(t)
	rest := func(converged bool, unmet ...string) *history.History {
		return &history.History{Checkpoints: []history.Checkpoint{{Name: "made", Converged: true},
			{Name: "grown", Converged: converged, Unmet: unmet}}}
	}
	g.Expect(growthProblem(rest(true), nil)).To(BeEmpty())
	g.Expect(growthProblem(rest(false, "Thing ns/a to have Ready=True"), nil)).To(
		Equal(`at "grown" it is not ready: Thing ns/a to have Ready=True`))
	invalid := rest(true)
	invalid.Requests = []history.Request{{User: "op", Verb: "create", Code: 422, Effect: history.Refused}}
	g.Expect(growthProblem(invalid, []string{"another"})).To(BeEmpty())
	g.Expect(growthProblem(invalid, []string{"op"})).To(HavePrefix("the operator cannot use it: create of"))
}

func TestGrowthTrial_EndsWithTheGrownObject(t *testing.T) {
	g := NewWithT(t)
	l := &learner{draft: &Draft{Kinds: kindsOf(t, nil, backups(t))}}
	g.Expect(l.draft.Kinds[0].Grow(GrowAll)).To(BeTrue())
	trial, err := l.growthTrial(&l.draft.Kinds[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(trial.Validate()).To(Succeed())
	g.Expect(trial.Steps).To(HaveEach(HaveField("Refused", BeEmpty())))
	last := trial.Steps[len(trial.Steps)-1]
	g.Expect(last.Name).To(Equal("grown"))
	g.Expect(last.Quiesce.Within.Duration).To(Equal(growthTimeout))
}
