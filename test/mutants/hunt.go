// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
	"leasehold.dev/test/internal/tree"
)

// cleanRuns is the number of clean runs of the unchanged operator that each plan is compared with.
const cleanRuns = 2

// hunt tries mutants one after another and keeps what became of them.
type hunt struct {
	options options
	output  io.Writer
	clock   clock.PassiveClock
	random  *rand.Rand
	salt    record.Salt // one for all provers, because their runs are compared

	sources    string                    // the folder of the copies
	original   string                    // the program without a mistake, from which mutants are upgraded
	references map[string]*run.Reference // by scenario
	flaws      []string                  // of the operator as it is
	rows       []row
}

// row is the result of one mutant in one plan.
type row struct {
	Mutant string `json:"mutant"`
	Class  string `json:"class"`
	Bug    string `json:"bug"`
	Plan   string `json:"plan"`
	// Named is the invariant that has to find it, Verdict its verdict.
	Named   string           `json:"named"`
	Verdict invariant.Result `json:"verdict,omitempty"`
	// Fired are all invariants that were broken.
	Fired  []string      `json:"fired,omitempty"`
	Result result        `json:"result"`
	Why    string        `json:"why,omitempty"`
	Took   time.Duration `json:"took"`
}

// result is the outcome of a mutant.
type result string

const (
	killed   result = "killed"
	survived result = "SURVIVED"
	// void: what was to go wrong did not, so nothing is known.
	void result = "void"
	// failed: it could not be tried.
	failed result = "failed"
)

// run learns how the operator is without mistakes, and then tries each mutant.
func (h *hunt) run(ctx context.Context, wanted []mutant) (err error) {
	if h.sources, err = os.MkdirTemp("", "mutants-"); err != nil {
		return fmt.Errorf("making a folder for the source of mutants: %w", err)
	}
	if !h.options.keep {
		defer func() { _ = os.RemoveAll(h.sources) }()
	}
	if err := h.learn(ctx, wanted); err != nil {
		return err
	}
	for i, m := range wanted {
		fmt.Fprintf(h.output, "mutant %d of %d: %s, %s\n", i+1, len(wanted), m.name, m.Bug)
		if err := h.try(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// learn runs the scenarios, and optionally the plans, with the unchanged operator. They must have
// no findings.
func (h *hunt) learn(ctx context.Context, wanted []mutant) (err error) {
	ids := plansOf(wanted)
	s, err := h.subject(ctx, h.options.root)
	if err != nil {
		return err
	}
	h.original = s.Operator.Binary
	prover, err := run.Start(ctx, run.Options{Subject: s.Subject, Random: h.random, Salt: h.salt})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prover.Stop(ctx)) }()
	h.references = map[string]*run.Reference{}
	for i, id := range ids {
		of, plan, err := planOf(id)
		if err != nil {
			return err
		}
		if h.references[of] == nil {
			if err := h.refer(ctx, prover, s, of); err != nil {
				return err
			}
		}
		if plan == nil || !h.options.baseline {
			continue
		}
		outcome, err := prover.Run(ctx, h.references[of], *plan)
		if err != nil {
			return err
		}
		h.report(fmt.Sprintf("without a mutant, plan %d of %d %s", i+1, len(ids), id), outcome)
	}
	return nil
}

// subject is the operator as it is in a folder, built there.
func (h *hunt) subject(ctx context.Context, root string) (*subject.Suite, error) {
	return subject.Load(ctx, filepath.Join(root, h.options.subject), "")
}

// inTime is the timeout of until-conditions in scenarios without one. A run of a mutant that
// does not reach its condition waits that long.
const inTime = 30 * time.Second

// shortened returns the scenario with short timeouts.
func shortened(s scenario.Scenario) scenario.Scenario {
	s.Steps = slices.Clone(s.Steps)
	for i, step := range s.Steps {
		if step.Quiesce != nil && step.Quiesce.Within.Duration == 0 {
			quiesce := *step.Quiesce
			quiesce.Within.Duration = inTime
			s.Steps[i].Quiesce = &quiesce
		}
		if step.Wait != nil && step.Wait.Within.Duration == 0 {
			wait := *step.Wait
			wait.Within.Duration = inTime
			s.Steps[i].Wait = &wait
		}
	}
	return s
}

// refer makes the clean runs of one scenario.
func (h *hunt) refer(ctx context.Context, prover *run.Prover, s *subject.Suite, name string) error {
	i := slices.IndexFunc(s.Scenarios, func(s scenario.Scenario) bool { return s.Name == name })
	if i < 0 {
		return fmt.Errorf("looking for the scenario %s: there is none of that name", name)
	}
	ref, err := prover.Reference(ctx, shortened(s.Scenarios[i]), cleanRuns)
	if err != nil {
		return err
	}
	h.references[name] = ref
	for n, o := range ref.Outcomes {
		h.report(fmt.Sprintf("without a mutant, clean run %d of %s", n+1, name), o)
	}
	return nil
}

// report prints a run of the unchanged operator, and records a run that did not hold.
func (h *hunt) report(what string, o run.Judged) {
	fmt.Fprintf(h.output, "%s: %s (%.1f s)\n", what, o.Result, o.Took.Seconds())
	if o.Result == invariant.Held {
		return
	}
	h.flaws = append(h.flaws, fmt.Sprintf("%s: %s", what, o.Result))
	for _, v := range o.Verdicts {
		if v.Result != invariant.Held {
			fmt.Fprintln(h.output, v)
		}
	}
}

// plansOf are those of all mutants, each once, those of one scenario together.
func plansOf(all []mutant) []string {
	var ids []string
	for _, m := range all {
		ids = append(ids, m.Plans...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// try builds one mutant and runs its plans. A mutant that cannot be built or started is a row too;
// an error ends the run.
func (h *hunt) try(ctx context.Context, m mutant) error {
	began := h.clock.Now()
	dir := filepath.Join(h.sources, m.name)
	if h.options.keep {
		fmt.Fprintf(h.output, "    its source: %s\n", dir)
	} else {
		// In the same folder, what has not changed need not be compiled again.
		dir = filepath.Join(h.sources, "source")
		defer func() { _ = os.RemoveAll(dir) }()
	}
	s, err := h.build(ctx, m, dir)
	for n := 0; err == nil && n < h.options.count && (n == 0 || h.rows[len(h.rows)-1].Result == killed); n++ {
		err = h.attempts(ctx, s, m, began)
		began = h.clock.Now()
	}
	if err != nil {
		h.note(row{Mutant: m.name, Class: m.Class, Bug: m.Bug, Plan: m.Plans[0], Named: m.Kills, Result: failed,
			Why: err.Error(), Took: h.clock.Since(began)})
	}
	return ctx.Err()
}

// build builds the mutant in a folder, which must remain while it runs.
func (h *hunt) build(ctx context.Context, m mutant, dir string) (*subject.Suite, error) {
	if err := tree.Plant(ctx, h.options.root, dir, m.path); err != nil {
		return nil, err
	}
	return h.subject(ctx, dir)
}

// attempts runs all plans on new replicas of a mutant, since one plan may have permanently changed
// the state of a replica.
func (h *hunt) attempts(ctx context.Context, s *subject.Suite, m mutant, began time.Time) error {
	installed := s.Subject
	installed.Previous = h.original
	prover, err := run.Start(ctx, run.Options{Subject: installed, Random: h.random, Salt: h.salt})
	if err != nil {
		return err
	}
	for _, id := range m.Plans {
		h.note(h.attempt(ctx, s, prover, m, id, began))
		began = h.clock.Now()
	}
	if err := prover.Stop(ctx); err != nil {
		// It has been judged by now, and may be made not to stop.
		fmt.Fprintf(h.output, "    stopping it: %v\n", err)
	}
	return nil
}

// attempt runs one plan on a mutant.
func (h *hunt) attempt(ctx context.Context, s *subject.Suite, prover *run.Prover, m mutant, id string,
	began time.Time) (r row) {
	r = row{Mutant: m.name, Class: m.Class, Bug: m.Bug, Plan: id, Named: m.Kills, Result: failed}
	defer func() { r.Took = h.clock.Since(began) }()
	of, plan, err := planOf(id)
	if err != nil {
		r.Why = err.Error()
		return r
	}
	var outcome run.Judged
	if plan == nil {
		outcome, err = prover.Clean(ctx, h.references[of])
	} else {
		outcome, err = prover.Run(ctx, h.references[of], *plan)
	}
	if err == nil {
		r.judge(outcome)
		err = h.keep(m, id, s, outcome)
	}
	if err != nil {
		r.Why = err.Error()
	}
	return r
}

// judge sets the row's result from an outcome.
func (r *row) judge(o run.Judged) {
	for _, v := range o.Verdicts {
		if v.Invariant == r.Named {
			r.Verdict = v.Result
			if len(v.Violations) > 0 {
				r.Why = v.Violations[0].Message
			}
		}
		if v.Result == invariant.Broken {
			r.Fired = append(r.Fired, v.Invariant)
		}
	}
	switch {
	case len(o.History.Void()) > 0:
		r.Result = void
	case r.Verdict == invariant.Broken:
		r.Result = killed
	default:
		r.Result = survived
	}
}

// note adds a row and prints it.
func (h *hunt) note(r row) {
	h.rows = append(h.rows, r)
	fmt.Fprintf(h.output, "    %s by %s in %s (%.1f s; broken: %s)\n", r.Result, r.Named, r.Plan, r.Took.Seconds(),
		strings.Join(r.Fired, " "))
	if r.Why != "" {
		fmt.Fprintf(h.output, "        %s\n", r.Why)
	}
}
