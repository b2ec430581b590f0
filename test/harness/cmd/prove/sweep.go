// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// cleanRuns is the number of runs that plans are compared with: two show incidental differences.
const cleanRuns = 2

// job is one run to do: of a plan, or without a fault.
type job struct {
	reference *run.Reference
	plan      *run.Plan
}

// sweeper runs the plans of all scenarios, side by side.
type sweeper struct {
	options options
	output  io.Writer
	plans   func(*run.Reference) []run.Plan
	silent  []string // scenarios in whose clean runs the operator did nothing

	base *report.Sweep // nil without --base

	mu     sync.Mutex // the ledger is for one goroutine
	ledger *ledger
}

func newSweep(o options, promises invariant.Contract, output io.Writer) *sweeper {
	return &sweeper{options: o, output: output, ledger: newLedger(o, promises, output),
		plans: func(r *run.Reference) []run.Plan { return r.Plans(o.seed) }}
}

// run does the work of a fleet: first the clean runs of each scenario, then what can
// go wrong in them.
func (s *sweeper) run(ctx context.Context, fleet *run.Fleet, of []scenario.Scenario) error {
	references, err := s.compare(ctx, fleet, of)
	if err != nil {
		return err
	}
	jobs, err := s.jobs(references)
	if err != nil {
		return err
	}
	return s.do(ctx, fleet, jobs)
}

// compare makes the references, with the runs of any prover. The scenarios with most steps begin, or one
// prover would still run them while the others wait.
func (s *sweeper) compare(ctx context.Context, fleet *run.Fleet, of []scenario.Scenario) ([]*run.Reference, error) {
	of = slices.SortedStableFunc(slices.Values(of), func(a, b scenario.Scenario) int {
		return cmp.Compare(len(b.Steps), len(a.Steps))
	})
	references := make([]*run.Reference, len(of))
	return references, fleet.References(ctx, of, cleanRuns, func(i int, ref *run.Reference) error {
		references[i] = ref
		fmt.Fprintf(s.output, "%s: %d clean runs to compare with\n", of[i].Name, cleanRuns)
		for _, outcome := range ref.Outcomes {
			if err := s.ledger.compared(ran{ref, nil, outcome}); err != nil {
				return err
			}
		}
		return nil
	})
}

// longestFirst puts the jobs of long scenarios first: one that began last would run on alone.
func longestFirst(jobs []job) {
	slices.SortStableFunc(jobs, func(a, b job) int {
		return cmp.Compare(b.reference.Outcomes[0].Took, a.reference.Outcomes[0].Took)
	})
}

// do runs jobs with a fleet.
func (s *sweeper) do(ctx context.Context, fleet *run.Fleet, jobs []job) error {
	if !s.options.byValue() {
		longestFirst(jobs)
	}
	s.ledger.expect(len(jobs))
	return fleet.Each(ctx, len(jobs), func(ctx context.Context, p *run.Prover, i int) error {
		j := jobs[i]
		if s.spent() {
			return nil
		}
		outcome, err := againIfVoid(func() (run.Judged, error) {
			if j.plan == nil {
				return p.Clean(ctx, j.reference)
			}
			return p.Run(ctx, j.reference, *j.plan)
		})
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ledger.add(ran{j.reference, j.plan, outcome})
	})
}

// spent reports whether the budget leaves out a plan, and counts it.
func (s *sweeper) spent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.budget == 0 || s.ledger.clock.Since(s.ledger.sweep.Began) < s.options.budget {
		return false
	}
	s.ledger.sweep.Left++
	return true
}

// againIfVoid runs a plan once more if its fault did not happen: how often an operator writes a status depends
// on timing, so a later write may be missing in one run.
func againIfVoid(once func() (run.Judged, error)) (run.Judged, error) {
	outcome, err := once()
	if err == nil && outcome.Result == invariant.Void {
		return once()
	}
	return outcome, err
}

// jobs returns the runs that the options select, and notes the scenarios that have none. Choices
// depend on the seed alone, so that a plan can be repeated.
func (s *sweeper) jobs(references []*run.Reference) ([]job, error) {
	var jobs []job
	for _, ref := range references {
		if !s.answered(ref) {
			s.silent = append(s.silent, ref.Scenario.Name)
		}
	}
	if s.options.clean > 0 {
		for i := range s.options.clean {
			jobs = append(jobs, job{references[i%len(references)], nil})
		}
		return jobs, nil
	}
	if s.options.plan != "" {
		plan, err := run.ParsePlan(s.options.plan)
		return slices.Repeat([]job{{references[0], &plan}}, s.options.repeat), err
	}
	matching := 0 // in all shards
	isChanged := s.changed()
	for _, ref := range references {
		if slices.Contains(s.silent, ref.Scenario.Name) {
			continue
		}
		plans := s.plans(ref)
		if len(plans) == 0 {
			s.silent = append(s.silent, ref.Scenario.Name)
		}
		for _, plan := range plans {
			if !s.options.match.MatchString(plan.ID()) || !isChanged(plan) {
				continue
			}
			matching++
			if s.options.shard.has(plan) {
				jobs = append(jobs, job{ref, &plan})
			}
		}
	}
	switch {
	case len(s.silent) == len(references):
		return nil, fmt.Errorf("deriving plans: %w", s.taughtNothing())
	case matching == 0 && s.base == nil:
		return nil, fmt.Errorf("choosing plans: none has %s in its ID", s.options.match)
	}
	if s.options.smoke {
		jobs = subset(jobs, s.options.seed)
	} else if s.options.byValue() {
		jobs = byValue(jobs, s.options.seed)
	}
	return slices.Repeat(jobs, s.options.repeat), nil
}

// answered reports whether the operator did something in the clean runs of a scenario. Otherwise, plans of what it
// receives would hold, and show nothing.
func (s *sweeper) answered(ref *run.Reference) bool {
	return slices.ContainsFunc(ref.Histories, func(h *history.History) bool {
		return h.Answered(s.ledger.promises.Users, s.ledger.promises.Lease.Namespace)
	})
}

// taughtNothing is an error about the silent scenarios.
func (s *sweeper) taughtNothing() error {
	return fmt.Errorf("in the clean runs of %s, the operator wrote nothing about their objects but events, so that plans would "+
		"show nothing; add the objects that the scenario needs, such as the pool of a claim, or remove the scenario",
		strings.Join(s.silent, ", "))
}

// changed returns whether a plan is of a request whose number has changed since the base. A start and a watch have
// no number, so they are tried where any request of their scenario has changed. Without a base, all plans are.
func (s *sweeper) changed() func(run.Plan) bool {
	if s.base == nil {
		return func(run.Plan) bool { return true }
	}
	targets := map[[3]string]bool{}
	for _, c := range s.ledger.sweep.Changes(s.base, true) {
		targets[[3]string{c.Scenario, c.Method, c.Path}] = true
		targets[[3]string{c.Scenario}] = true
	}
	return func(p run.Plan) bool {
		return targets[[3]string{p.Scenario, p.Target.Method, p.Target.Path}] ||
			targets[[3]string{p.Scenario}] && p.Target.Received()
	}
}

// byValue puts one plan of each family of faults first, then another one of each, and so on.
func byValue(jobs []job, seed uint64) (ordered []job) {
	for {
		few := subset(jobs, seed)
		if len(few) == 0 {
			return append(ordered, jobs...)
		}
		ordered = append(ordered, few...)
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return slices.Contains(few, j) })
	}
}

// subset returns one plan of each family of faults. The seed draws the scenario first: otherwise, most
// plans would be of the scenario with the most writes. The number of status writes depends on timing,
// so only the first request of its kind certainly occurs in each run. The sweep runs plans for later
// ones.
func subset(jobs []job, seed uint64) []job {
	by := map[string][]job{}
	for _, j := range jobs {
		if strings.HasSuffix(j.plan.Target.Path, "/status") && j.plan.Target.Nth > 1 {
			continue
		}
		family := j.plan.Family().Name
		by[family] = append(by[family], j)
	}
	order := run.Order(seed)
	var few []job
	for _, family := range slices.Sorted(maps.Keys(by)) {
		scenarioOf := func(j job) run.Plan {
			return run.Plan{Scenario: j.plan.Scenario, Fault: scenario.FaultName(family)}
		}
		few = append(few, slices.MinFunc(by[family], func(a, b job) int {
			return cmp.Or(order(scenarioOf(a), scenarioOf(b)), order(*a.plan, *b.plan))
		}))
	}
	return few
}

// finish writes the summary and reports whether all has held, and, where plans were repeated,
// whether each gave the same each time. undone is the error that ended the sweep early, or nil.
func (s *sweeper) finish(undone error) error {
	if undone != nil {
		s.ledger.sweep.Undone = undone.Error()
	}
	results := map[string]map[invariant.Result]int{}
	for _, o := range s.ledger.sweep.Outcomes {
		if results[o.Plan] == nil {
			results[o.Plan] = map[invariant.Result]int{}
		}
		results[o.Plan][o.Result]++
	}
	var errs []error
	for _, plan := range slices.Sorted(maps.Keys(results)) {
		if s.options.repeat > 1 && plan != "" {
			fmt.Fprintf(s.output, "%s: %d times %v\n", plan, s.options.repeat, results[plan])
			if len(results[plan]) > 1 {
				errs = append(errs, fmt.Errorf("%w: %s gave %v", errFound, plan, results[plan]))
			}
		}
	}
	if len(s.silent) > 0 && undone == nil {
		errs = append(errs, fmt.Errorf("%w: %w", errFound, s.taughtNothing()))
	}
	return errors.Join(append(errs, s.ledger.close(s.base))...)
}
