// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/invariant"
)

func outcome(name, kind string, r invariant.Result) invariant.Outcome {
	o := invariant.Outcome{
		Name: name, Scenario: "life", Fault: kind, Result: r, Took: 2 * time.Second, Replay: "make prove",
		Verdicts: []invariant.Verdict{{Invariant: "single-writer", Promise: "one writes", Result: r},
			{Invariant: "external-ownership", Result: invariant.Inconclusive}},
	}
	if kind != "" {
		o.Plan = "life:" + kind + ":PATCH:/<a>:1"
	}
	if r == invariant.Broken {
		o.Verdicts[0].Violations = []invariant.Violation{{Message: "two wrote"}}
		o.Findings = []invariant.Finding{invariant.NewFinding([]invariant.FoundViolation{{Invariant: "single-writer",
			Violation: invariant.Violation{Message: "two wrote", Signature: "two wrote", Objects: []string{"things t"}}}})}
	}
	if r == invariant.Void {
		o.Verdicts[0].Result = invariant.Inconclusive
	}
	return o
}

func someRuns() *Sweep {
	return &Sweep{
		Seed: 7, Began: at(0), Took: time.Minute,
		Clean: []invariant.Outcome{outcome("life-clean-1", "", invariant.Held)},
		Outcomes: []invariant.Outcome{outcome("1", "failed-write-500", invariant.Held), outcome("2", "failed-write-500", invariant.Broken),
			outcome("3", "stop-leader", invariant.Void), outcome("4", "", invariant.Held)},
	}
}

// summaryOf returns the tables and lists of a sweep.
func summaryOf(t *testing.T, s *Sweep) string {
	t.Helper()
	var text strings.Builder
	NewWithT(t).Expect(s.WriteTable(&text)).To(Succeed())
	return text.String()
}

// junitOf returns the JUnit file of a sweep.
func junitOf(t *testing.T, s *Sweep) (suites junitSuites) {
	t.Helper()
	g := NewWithT(t)
	var text bytes.Buffer
	g.Expect(s.WriteJUnit(&text)).To(Succeed())
	g.Expect(xml.Unmarshal(text.Bytes(), &suites)).To(Succeed())
	return suites
}

func TestTables(t *testing.T) {
	g := NewWithT(t)
	g.Expect(summaryOf(t, someRuns())).To(Equal(strings.ReplaceAll(`
| plans                 | held | broken | inconclusive | void |
|---                    |---   |---     |---           |---   |
| life                  | 1    | 0      | 0            | 0    |
| life failed-write-500 | 1    | 1      | 0            | 0    |
| life stop-leader      | 0    | 0      | 0            | 1    |

| invariants         | held | broken | inconclusive |
|---                 |---   |---     |---           |
| single-writer      | 2    | 1      | 1            |
| external-ownership | 0    | 0      | 4            |

Findings:

1. single-writer: things t, in 1 plan

   - single-writer: two wrote
   - again: 'make prove'
   - [life:failed-write-500:PATCH:/<a>:1](2/timeline.html)

Runs that prove nothing:

- void: [life:stop-leader:PATCH:/<a>:1](3/timeline.html)

4 plans, 240 an hour: 2 held, 1 broken, 0 inconclusive, 1 void; findings: 1
`, "'", "`")))
}

// Only what a scenario is about makes a run inconclusive.
func TestList_NamesInconclusivePromises(t *testing.T) {
	g := NewWithT(t)
	o := outcome("life-clean-1", "", invariant.Inconclusive)
	o.Invariants = []string{"single-writer"}
	g.Expect(summaryOf(t, &Sweep{Clean: []invariant.Outcome{o}})).
		To(ContainSubstring("- inconclusive single-writer: [life-clean-1](life-clean-1/timeline.html)\n"))
}

func TestHeld(t *testing.T) {
	g := NewWithT(t)
	held, void := outcome("1", "failed-write-500", invariant.Held), outcome("2", "failed-write-500", invariant.Void)
	g.Expect((&Sweep{Outcomes: []invariant.Outcome{held}}).Held()).To(BeTrue())
	g.Expect((&Sweep{Outcomes: []invariant.Outcome{held, void}}).Held()).To(BeFalse())
	g.Expect((&Sweep{Clean: []invariant.Outcome{void}, Outcomes: []invariant.Outcome{held}}).Held()).To(BeFalse(),
		"what plans are compared with has to be sound")
}

func TestSummaryIsSaved(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "new")
	g.Expect(someRuns().Save(dir)).To(Succeed())
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	g.Expect(err).NotTo(HaveOccurred())
	var got struct {
		Summary
		Sweep
	}
	g.Expect(json.Unmarshal(text, &got)).To(Succeed())
	g.Expect(got.Summary).To(Equal(Summary{Plans: 4, PlansPerHour: 240,
		Results: map[invariant.Result]int{"held": 2, "broken": 1, "void": 1}, Findings: someRuns().Findings()}))
	g.Expect(got.Sweep).To(Equal(*someRuns()))
	for _, name := range []string{"summary.md", "junit.xml"} {
		g.Expect(filepath.Join(dir, name)).To(BeARegularFile())
	}
}

// A run that proves nothing must not be counted as passed.
func TestJUnit(t *testing.T) {
	g := NewWithT(t)
	got := junitOf(t, someRuns())
	g.Expect(got.Suites).To(HaveLen(1))
	suite := got.Suites[0]
	g.Expect([]any{suite.Name, suite.Tests, suite.Failures, suite.Errors, suite.Time, suite.Timestamp}).To(
		Equal([]any{"life", 5, 1, 1, 10.0, "2030-01-01T00:00:00Z"}))
	var names []string
	for _, c := range suite.Cases {
		names = append(names, c.Name)
	}
	const p2, p24 = "life:failed-write-500:PATCH:/<a>:1", "life:stop-leader:PATCH:/<a>:1"
	g.Expect(names).To(Equal([]string{"life-clean-1", p2, p2, p24, "4"}))
	failed, void := suite.Cases[2], suite.Cases[3]
	g.Expect(failed.Failure.Text).To(And(ContainSubstring("finding: single-writer: things t"), ContainSubstring("broken: two wrote"),
		ContainSubstring(`"one writes"`), ContainSubstring("again: make prove")))
	g.Expect(void.Error.Type).To(Equal("void"))
	g.Expect(suite.Cases[1].Failure).To(BeNil())
	g.Expect(suite.Cases[1].Error).To(BeNil())
}

func TestSweep_CountsReleasesAndLeftovers(t *testing.T) {
	g := NewWithT(t)
	held := func() invariant.Outcome { return outcome("1", "failed-write-500", invariant.Held) }
	s := &Sweep{Clean: []invariant.Outcome{held()}, Outcomes: []invariant.Outcome{held(), held()}}
	s.Outcomes[0].Releases = 2
	s.Clean[0].Leftovers, s.Outcomes[1].Leftovers = []string{"secrets b"}, []string{"secrets a", "secrets b"}
	g.Expect(summaryOf(t, s)).To(And(ContainSubstring("In 1 of 2 runs the harness, not the operator, released the Lease"), ContainSubstring(`
Left behind by the operator after the objects of the users were gone:

- secrets a: in 0 of 1 clean runs and in 1 of 2 other runs
- secrets b: in 1 of 1 clean runs and in 1 of 2 other runs
`)))
	g.Expect(summaryOf(t, &Sweep{Outcomes: []invariant.Outcome{held()}})).NotTo(Or(ContainSubstring("released"),
		ContainSubstring("Left behind")))
}
