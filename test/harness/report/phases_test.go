// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/invariant"
)

func timed(start, idle, all time.Duration) invariant.Outcome {
	o := outcome("1", "failed-write-500", invariant.Held)
	o.Phases, o.Took = []invariant.Phase{{Name: "start", Took: start}, {Name: "idle", Took: idle}}, all
	return o
}

func TestPhasesReleasesAndLeftovers_AreInTheSummary(t *testing.T) {
	g := NewWithT(t)
	s := &Sweep{
		Clean: []invariant.Outcome{timed(time.Second, 4*time.Second, 6*time.Second)},
		Outcomes: []invariant.Outcome{
			timed(9*time.Second, 3*time.Second, 13*time.Second), timed(2*time.Second, time.Second, 4*time.Second),
			outcome("2", "failed-write-500", invariant.Held), timed(3*time.Second, 2*time.Second, 40*time.Second),
		},
	}
	s.Outcomes[2].Releases = 2
	s.Clean[0].Leftovers, s.Outcomes[3].Leftovers = []string{"secrets b"}, []string{"secrets a", "secrets b"}
	g.Expect(summaryOf(t, s)).To(And(ContainSubstring(`
| median seconds | start | idle | all  |
|---             |---    |---   |---   |
| clean runs     | 1.0   | 4.0  | 6.0  |
| plans          | 3.0   | 2.0  | 13.0 |
`), ContainSubstring("In 1 of 4 runs the harness, not the operator, released the Lease"), ContainSubstring(`
Left behind by the operator after the objects of the users were gone:

- secrets a: in 0 of 1 clean runs and in 1 of 4 other runs
- secrets b: in 1 of 1 clean runs and in 1 of 4 other runs
`)))
	held := &Sweep{Outcomes: []invariant.Outcome{outcome("1", "failed-write-500", invariant.Held)}}
	g.Expect(summaryOf(t, held)).NotTo(Or(ContainSubstring("median"), ContainSubstring("released"),
		ContainSubstring("Left behind")), "of runs without phases, releases and leftovers")
}
