// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"leasehold.dev/test/harness/invariant"
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
	one, two := &run.Reference{}, &run.Reference{}
	s := &sweeper{options: asked(t, "--clean=3")}
	g.Expect(s.jobs([]*run.Reference{one, two})).To(Equal([]job{{one, nil}, {two, nil}, {one, nil}}))
}

// A scenario without a write in its clean runs is an error, and the plans of the others run all the same.
func TestSweep_ScenarioWithoutPlans(t *testing.T) {
	g := NewWithT(t)
	silent := &run.Reference{Scenario: scenario.Scenario{Name: "silent"}}
	busy := &run.Reference{Scenario: scenario.Scenario{Name: "busy"}}
	plan := run.Plan{Scenario: "busy", Fault: "lost-response"}
	s := &sweeper{options: asked(t), plans: func(r *run.Reference) []run.Plan {
		if r == busy {
			return []run.Plan{plan}
		}
		return nil
	}}
	g.Expect(s.jobs([]*run.Reference{silent, busy})).To(Equal([]job{{busy, &plan}}))
	g.Expect(s.silent).To(Equal([]string{"silent"}))
	finished := newSweep(options{dir: t.TempDir(), repeat: 1}, invariant.Contract{}, io.Discard)
	finished.silent = s.silent
	g.Expect(finished.finish(nil)).To(And(MatchError(errFound),
		MatchError(ContainSubstring("nothing in the clean runs of silent"))))
	s.silent = nil
	_, err := s.jobs([]*run.Reference{silent})
	g.Expect(err).To(MatchError("deriving plans: the operator wrote nothing in the clean runs of silent"))
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
	ref := &run.Reference{Scenario: scenario.Scenario{Name: "s"}}
	const id = "s:lost-response:PATCH:/a:1"
	for _, tc := range []struct {
		args          []string
		jobs, workers int
	}{
		{[]string{"--plan=" + id}, 1, 1},
		{[]string{"--plan=" + id, "--repeat=20", "--workers=4"}, 20, 4},
	} {
		s := &sweeper{options: asked(t, tc.args...)}
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
