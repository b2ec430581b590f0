// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// broke is a run with one finding: each violation is its invariant and its signature.
func broke(name, plan, replay string, violations ...[2]string) invariant.Outcome {
	o := invariant.Outcome{Name: name, Scenario: "life", Plan: plan, Replay: replay, Result: invariant.Broken,
		Took: time.Second}
	var found []invariant.FoundViolation
	for _, v := range violations {
		violation := invariant.Violation{Message: fmt.Sprintf("%s in %s", v[1], name), Signature: v[1], Objects: []string{"jobs.batch ns/j-*"}}
		o.Verdicts = append(o.Verdicts, invariant.Verdict{Invariant: v[0], Result: invariant.Broken,
			Violations: []invariant.Violation{violation}})
		found = append(found, invariant.FoundViolation{Invariant: v[0], Violation: violation})
	}
	o.Findings = []invariant.Finding{invariant.NewFinding(found)}
	return o
}

// knows adds a violation that a clean run reports.
func knows(o invariant.Outcome, id, signature string) invariant.Outcome {
	o.Verdicts = append(o.Verdicts, invariant.Verdict{Invariant: id, Result: invariant.Held,
		Known: []invariant.Violation{{Message: "it", Signature: signature}}})
	return o
}

// A finding of a stale start says why the start is legal, even when the report is read again.
func TestFindings_LegalStart(t *testing.T) {
	g := NewWithT(t)
	s := &Sweep{Outcomes: []invariant.Outcome{broke("1", "stale-start", "ab", [2]string{"end-state", "one"}),
		broke("2", "stale-start", "a", [2]string{"end-state", "one"}), broke("3", "lost-response", "abc", [2]string{"end-state", "one"})}}
	for i, legal := range []string{history.NeedsNoError + "x", "needs one error: y"} {
		s.Outcomes[i].Faults = []history.FaultRecord{{Name: "stale-start", Happened: 1, Detail: "killed", Legal: legal}}
	}
	dir := t.TempDir()
	g.Expect(s.Save(dir)).To(Succeed())
	again, err := LoadSweep(dir)
	g.Expect(err).NotTo(HaveOccurred())
	text := summaryOf(t, again)
	g.Expect(text).To(ContainSubstring("again: `abc`\n   - [lost-response]"), "nothing has to be legal for the longest command")
	g.Expect(again.Findings()[0].Runs[1].Name).To(Equal("1"))
	g.Expect(text).To(ContainSubstring("[stale-start](1/timeline.html)\n     - This stale start needs no error: x; see"))
	g.Expect(text).To(ContainSubstring("[stale-start](2/timeline.html)\n     - This stale start needs one error: y; see"))
	g.Expect(strings.Count(text, "This stale start")).To(Equal(2), "not for other faults")
	var junit strings.Builder
	g.Expect(again.WriteJUnit(&junit)).To(Succeed())
	g.Expect(junit.String()).To(ContainSubstring("fault: killed; this needs no error: x (happened 1 times)"))
}

func TestFindings_GroupsRunsOfOneCause(t *testing.T) {
	g := NewWithT(t)
	s := &Sweep{
		Clean: []invariant.Outcome{broke("clean-1", "", "make prove SEED=7 PROVE_FLAGS=--clean", [2]string{"truthful-readiness", "never ready"}),
			knows(outcome("clean-2", "", invariant.Held), "truthful-readiness", "never ready")},
		Outcomes: []invariant.Outcome{
			broke("1", "lost-response", "make prove PLAN=the-longer-one", [2]string{"end-state", "one more"}, [2]string{"single-lifecycle", "made twice"}),
			broke("2", "external-error", "make prove PLAN=z", [2]string{"external-ownership", "none outside"}),
			knows(broke("3", "failed-write", "make prove PLAN=short", [2]string{"single-lifecycle", "made twice"}), "truthful-readiness", "never ready"),
			broke("4", "watch-delay", "make prove PLAN=b", [2]string{"end-state", "one less"}),
			broke("5", "watch-gap", "make prove PLAN=c", [2]string{"end-state", "one less"}, [2]string{"external-ownership", "none outside"}), // joins 2 and 4
		},
	}
	findings := s.Findings()
	g.Expect(findings).To(HaveLen(3))
	g.Expect(findings[0].Clean).To(BeTrue(), "findings without a fault are first")
	g.Expect(findings[0].Again).To(Equal(2))
	g.Expect(findings[1].Invariants).To(Equal([]string{"end-state", "external-ownership"}))
	g.Expect(findings[1].Runs).To(HaveLen(3))
	g.Expect(findings[2].Invariants).To(Equal([]string{"single-lifecycle", "end-state"}))
	g.Expect(findings[2].Runs[0].Replay).To(Equal("make prove PLAN=short"), "the shortest first")
	g.Expect(s.Held()).To(BeFalse())
	lost := broke("6", "stale-start", "make prove PLAN=d", [2]string{"single-lifecycle", "deleted"})
	lost.Findings[0].Violations[0].Lost = true
	with := &Sweep{Clean: s.Clean, Outcomes: append(slices.Clone(s.Outcomes), lost)}
	g.Expect(with.Findings()[0].Lost()).To(BeTrue(), "the loss of an object is before all others")
	g.Expect(with.Findings()[1:]).To(Equal(findings))
	g.Expect(summaryOf(t, s)).To(And(
		ContainSubstring("1. truthful-readiness: jobs.batch ns/j-*, in a clean run; also in 2 other runs, judged for everything else\n"),
		ContainSubstring("\n3. single-lifecycle end-state: jobs.batch ns/j-*, in 2 plans\n\n   - single-lifecycle: made twice in 1\n   - end-state: one more in 1\n   - again: `make prove PLAN=short`\n   - [failed-write](3/timeline.html)\n   - [lost-response](1/timeline.html)\n"),
		ContainSubstring("; findings: 3\n"),
	))
}

// An exception is in each report, whether something broke it or not.
func TestExceptions_AreReported(t *testing.T) {
	g := NewWithT(t)
	excepted := outcome("1", "failed-write-500", invariant.Held)
	excepted.Verdicts = []invariant.Verdict{{Invariant: "truthful-readiness", Result: invariant.Broken, Excepted: "no webhook",
		Violations: []invariant.Violation{{Message: "not ready"}}}}
	s := &Sweep{Except: []invariant.Exception{{Invariant: "truthful-readiness", Reason: "no webhook"}},
		Outcomes: []invariant.Outcome{excepted}}
	g.Expect(summaryOf(t, s)).To(ContainSubstring(
		"- truthful-readiness (no webhook): held in 0 runs, broken in 1, inconclusive in 0\n"))
	g.Expect(summaryOf(t, s)).To(ContainSubstring("findings: 0"))
	got := junitOf(t, s)
	g.Expect(got.Suites[0].Properties.All).To(Equal([]junitProperty{{"except truthful-readiness", "no webhook"}}))
	g.Expect(got.Suites[0].Failures).To(BeZero())
}
