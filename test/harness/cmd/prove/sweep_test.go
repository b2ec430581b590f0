// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	testclock "k8s.io/utils/clock/testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

func asked(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parse(newRun, append([]string{"--seed=7"}, args...)...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return o
}

func TestSweep_SpreadsCleanRuns(t *testing.T) {
	g := NewWithT(t)
	one, two := busy("one"), &run.Reference{Scenario: scenario.Scenario{Name: "two"}}
	s := newSweep(asked(t, "--clean=3"), promises, io.Discard)
	g.Expect(s.jobs([]*run.Reference{one, two})).To(Equal([]job{{one, nil}, {two, nil}, {one, nil}}))
	g.Expect(s.silent).To(Equal([]string{"two"}))
}

var promises = invariant.Contract{Users: []string{"operator"}}

// busy is a scenario in whose clean run the operator writes.
func busy(name string) *run.Reference {
	write := history.Request{User: "operator", Effect: history.Stored, Made: true}
	return &run.Reference{Scenario: scenario.Scenario{Name: name},
		Histories: []*history.History{{Requests: []history.Request{write}}}}
}

// A scenario without a write of the operator in its clean runs is an error, although it has plans of what the operator
// receives. Those would hold. The plans of the others run all the same.
func TestSweep_ScenarioThatTeachesNothing(t *testing.T) {
	g := NewWithT(t)
	silent, busy := &run.Reference{Scenario: scenario.Scenario{Name: "silent"}}, busy("busy")
	plan := run.Plan{Scenario: "busy", Fault: "lost-response"}
	s := newSweep(asked(t), promises, io.Discard)
	s.plans = func(r *run.Reference) []run.Plan {
		if r == busy {
			return []run.Plan{plan}
		}
		return []run.Plan{{Scenario: "silent", Fault: "stale-start"}}
	}
	g.Expect(s.jobs([]*run.Reference{silent, busy})).To(Equal([]job{{busy, &plan}}))
	g.Expect(s.silent).To(Equal([]string{"silent"}))
	finished := newSweep(options{dir: t.TempDir(), repeat: 1}, invariant.Contract{}, io.Discard)
	finished.silent = s.silent
	g.Expect(finished.finish(nil)).To(And(MatchError(errFound),
		MatchError(ContainSubstring("in the clean runs of silent, the operator wrote nothing"))))
	s.silent = nil
	_, err := s.jobs([]*run.Reference{silent})
	g.Expect(err).To(MatchError(HavePrefix("deriving plans: in the clean runs of silent, the operator wrote nothing ")))
	s.silent = nil
	s.options = asked(t, "--match=nothing")
	_, err = s.jobs([]*run.Reference{silent, busy})
	g.Expect(err).To(MatchError("choosing plans: none has nothing in its ID"))
}

func TestLongestFirst(t *testing.T) {
	g := NewWithT(t)
	took := func(d time.Duration) *run.Reference {
		return &run.Reference{Outcomes: []run.Judged{{Outcome: invariant.Outcome{Took: d}}}}
	}
	short, long := took(time.Second), took(time.Minute)
	a, b := run.Plan{Scenario: "a"}, run.Plan{Scenario: "b"}
	jobs := []job{{short, &a}, {long, &b}, {short, nil}, {long, &a}}
	longestFirst(jobs)
	g.Expect(jobs).To(Equal([]job{{long, &b}, {long, &a}, {short, &a}, {short, nil}}), "and stay in order")
}

func TestAgainIfVoid(t *testing.T) {
	for name, tc := range map[string]struct {
		results []invariant.Result
		err     error
	}{
		"Held":         {results: []invariant.Result{invariant.Held}},
		"Broken":       {results: []invariant.Result{invariant.Broken}},
		"Inconclusive": {results: []invariant.Result{invariant.Inconclusive}},
		"Later":        {results: []invariant.Result{invariant.Void, invariant.Broken}},
		"Never":        {results: []invariant.Result{invariant.Void, invariant.Void}},
		"Error":        {results: []invariant.Result{invariant.Void}, err: errors.New("no control plane")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			runs := 0
			outcome, err := againIfVoid(func() (run.Judged, error) {
				runs++
				return run.Judged{Outcome: invariant.Outcome{Result: tc.results[runs-1]}}, tc.err
			})
			if tc.err != nil {
				g.Expect(err).To(MatchError(tc.err))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(runs).To(Equal(len(tc.results)))
			g.Expect(outcome.Result).To(Equal(tc.results[runs-1]))
		})
	}
}

func TestSweep_RepeatsAPlan(t *testing.T) {
	g := NewWithT(t)
	ref := busy("s")
	const id = "s:lost-response:PATCH:/a:1"
	for _, tc := range []struct {
		args          []string
		jobs, workers int
	}{
		{[]string{"--plan=" + id}, 1, 1},
		{[]string{"--plan=" + id, "--repeat=20", "--workers=4"}, 20, 4},
	} {
		s := newSweep(asked(t, tc.args...), promises, io.Discard)
		jobs, err := s.jobs([]*run.Reference{ref})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(jobs).To(HaveLen(tc.jobs))
		for _, j := range jobs {
			g.Expect(j.plan.ID()).To(Equal(id))
		}
		g.Expect(s.options.workers).To(Equal(tc.workers))
	}
	_, err := parse(newRun, "--workers=0")
	g.Expect(err).To(MatchError(ContainSubstring("at least 1")))
}

func TestSweep_RepeatedPlanMustAgree(t *testing.T) {
	const id = "s:lost-response:PATCH:/a:1"
	for name, tc := range map[string]struct {
		results []invariant.Result
		says    string
		ends    types.GomegaMatcher
	}{
		"Same":   {[]invariant.Result{invariant.Held, invariant.Held}, id + ": 2 times map[held:2]", Succeed()},
		"Differ": {[]invariant.Result{invariant.Held, invariant.Void}, "", MatchError(errFound)},
		"Broken": {[]invariant.Result{invariant.Broken, invariant.Broken}, id + ": 2 times map[broken:2]", MatchError(errFound)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var output bytes.Buffer
			s := newSweep(options{dir: t.TempDir(), repeat: 2}, invariant.Contract{}, &output)
			for _, r := range tc.results {
				s.ledger.sweep.Outcomes = append(s.ledger.sweep.Outcomes, invariant.Outcome{Plan: id, Result: r})
			}
			g.Expect(s.finish(nil)).To(tc.ends)
			g.Expect(output.String()).To(ContainSubstring(tc.says))
		})
	}
}

// With a base, the plans are those of requests whose number changed, and of what the operator receives in their
// scenario, one of each family first. The budget leaves out the last.
func TestSweep_Base(t *testing.T) {
	g := NewWithT(t)
	clean := func(writes int) invariant.Outcome {
		return invariant.Outcome{Scenario: "s", Requests: []invariant.RequestCount{
			{Step: "ready", Method: "PATCH", Path: "/same", Count: 1}, {Step: "ready", Method: "PATCH", Path: "/a", Count: writes}}}
	}
	var plans []run.Plan
	for _, id := range []string{"s:crash-after-write:PATCH:/a:1", "s:crash-after-write:PATCH:/a:2", "s:lost-response:PATCH:/a:1",
		"s:lost-response:PATCH:/same:1", "s:crash-after-write:PUT:/a:1", "s:stale-start:START:/same:1",
		"other:stale-start:START:/same:1"} {
		plans = append(plans, *plan(t, id))
	}
	o := asked(t, "--base=main", "--budget=10m")
	o.dir = t.TempDir()
	s := newSweep(o, promises, io.Discard)
	s.base = &report.Sweep{Clean: []invariant.Outcome{clean(1)}}
	s.plans = func(*run.Reference) []run.Plan { return plans }
	ref := busy("s")
	s.ledger.sweep.Clean = []invariant.Outcome{clean(1)}
	g.Expect(s.jobs([]*run.Reference{ref})).To(BeEmpty(), "nothing has changed")
	s.ledger.sweep.Clean = []invariant.Outcome{clean(2)}
	jobs, err := s.jobs([]*run.Reference{ref})
	g.Expect(err).NotTo(HaveOccurred())
	var order []string
	for _, j := range jobs {
		order = append(order, string(j.plan.Fault)+j.plan.Target.Path)
	}
	g.Expect(order).To(Equal([]string{"crash-after-write/a", "lost-response/a", "stale-start/same", "crash-after-write/a"}))

	clock := testclock.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	s.ledger.clock = clock
	s.ledger.expect(len(jobs))
	g.Expect(s.spent()).To(BeFalse())
	clock.SetTime(clock.Now().Add(10 * time.Minute))
	g.Expect(s.spent()).To(BeTrue())
	g.Expect(s.ledger.sweep.Left).To(Equal(1))

	// Without a base, all plans are in this order.
	s = newSweep(asked(t, "--budget=10m"), promises, io.Discard)
	s.plans = func(*run.Reference) []run.Plan { return plans }
	all, err := s.jobs([]*run.Reference{ref})
	g.Expect(err).NotTo(HaveOccurred())
	var families []string
	for _, j := range all {
		families = append(families, j.plan.Family().Name)
	}
	g.Expect(families).To(Equal([]string{"crash-after-write", "lost-response", "stale-start", "crash-after-write", "lost-response",
		"stale-start", "crash-after-write"}))

	_, err = parse(newRun, "--budget=-1m")
	g.Expect(err).To(MatchError(ContainSubstring("--budget=-1m0s is negative")))
	for _, wrong := range []string{"--base=main --clean=1", "--base=. --dir=."} {
		_, err := parse(newRun, strings.Fields(wrong)...)
		g.Expect(err).To(MatchError(ContainSubstring("--base")), wrong)
	}
}

// Only a finding that the base does not have, and a run that proves nothing, are an error.
func TestMerge_Base(t *testing.T) {
	g := NewWithT(t)
	counts := func(l *ledger) {
		l.sweep.Clean[0].Requests = []invariant.RequestCount{{Step: "ready", Method: "GET", Count: 1}}
	}
	judged := func(l *ledger) {
		void := func(o invariant.Outcome) bool { return o.Result == invariant.Void }
		l.sweep.Outcomes = slices.DeleteFunc(l.sweep.Outcomes, void)
	}
	head, base := sweepOf(t, "", counts, judged), sweepOf(t, "", counts)
	_, output, code := merged(t, "--base", base, head)
	g.Expect(code).To(BeZero(), output)
	g.Expect(output).To(ContainSubstring("0 new findings, 23 plans"))
	_, output, code = merged(t, "--base", base, sweepOf(t, "", counts))
	g.Expect(code).To(Equal(1), output)
	g.Expect(output).To(ContainSubstring("0 new findings, 24 plans"))
	better := sweepOf(t, "", counts, func(l *ledger) { l.sweep.Outcomes = nil })
	_, output, code = merged(t, "--base", better, head)
	g.Expect(code).To(Equal(1))
	g.Expect(output).To(ContainSubstring("2 new findings, 23 plans"))
	_, output, code = merged(t, "--base", sweepOf(t, ""), head)
	g.Expect(code).To(Equal(2), output)
	_, output, code = merged(t, "--base", base, "--dir", base, head)
	g.Expect(code).To(Equal(2), output)
	g.Expect(report.LoadBase(base)).NotTo(BeNil(), "the report of the base is still there")
}
