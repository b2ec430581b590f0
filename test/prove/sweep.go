package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// cleanRuns are what plans are compared with: in two it shows what differs by itself.
const cleanRuns = 2

// sweep runs plans one after another and keeps what became of them.
type sweep struct {
	options  options
	output   io.Writer
	clock    clock.PassiveClock
	began    time.Time // the first plan
	outcomes []run.Outcome
	clean    []run.Outcome // of the references
}

func newSweep(o options, output io.Writer) *sweep {
	return &sweep{options: o, output: output, clock: clock.RealClock{}}
}

func (s *sweep) run(ctx context.Context, prover *run.Prover, of scenario.Scenario) error {
	fmt.Fprintf(s.output, "%s: %d clean runs to compare with\n", of.Name, cleanRuns)
	ref, err := prover.Reference(ctx, of, cleanRuns)
	if err != nil {
		return err
	}
	s.clean = ref.Outcomes
	for i, o := range ref.Outcomes {
		fmt.Fprintf(s.output, "clean run %d: %s in %s\n", i+1, o.Result, o.Took.Round(time.Millisecond))
		if err := s.keep(fmt.Sprintf("clean-%d", i+1), o, o.Result != run.Held); err != nil {
			return err
		}
	}
	plans, err := s.chosen(ref)
	if err != nil {
		return err
	}
	s.began = s.clock.Now()
	for i := range s.options.clean {
		if err := s.one(ctx, i, s.options.clean, "clean run", func(ctx context.Context) (run.Outcome, error) { return prover.Clean(ctx, ref) }); err != nil {
			return err
		}
	}
	for i, plan := range plans {
		if err := s.one(ctx, i, len(plans), plan.ID(), func(ctx context.Context) (run.Outcome, error) { return prover.Run(ctx, ref, plan) }); err != nil {
			return err
		}
	}
	return nil
}

// chosen are the plans that the options ask for. Codes come from the seed alone,
// so that a plan that is run again is the same.
func (s *sweep) chosen(ref *run.Reference) ([]scenario.Plan, error) {
	switch {
	case s.options.clean > 0:
		return nil, nil
	case s.options.plan != "":
		plan, err := scenario.ParsePlan(s.options.plan)
		return []scenario.Plan{plan}, err
	}
	plans := ref.Plans(rand.New(rand.NewPCG(s.options.seed, 1)))
	if len(plans) == 0 {
		return nil, errors.New("deriving plans: the operator has written nothing in the clean runs")
	}
	if s.options.match != nil {
		plans = slices.DeleteFunc(plans, func(p scenario.Plan) bool { return !s.options.match.MatchString(p.ID()) })
	}
	if len(plans) == 0 {
		return nil, fmt.Errorf("choosing plans: none has %s in its ID", s.options.match)
	}
	if !s.options.smoke {
		return plans, nil
	}
	return subset(plans, rand.New(rand.NewPCG(s.options.seed, 2))), nil
}

// subset is one plan of each perturbation, each at another write.
func subset(plans []scenario.Plan, random *rand.Rand) []scenario.Plan {
	by := map[scenario.Perturbation][]scenario.Plan{}
	for _, p := range plans {
		by[p.Perturbation] = append(by[p.Perturbation], p)
	}
	var few []scenario.Plan
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		few = append(few, by[kind][random.IntN(len(by[kind]))])
	}
	return few
}

// one runs a plan and tells of it.
func (s *sweep) one(ctx context.Context, i, n int, name string, do func(context.Context) (run.Outcome, error)) error {
	outcome, err := do(ctx)
	if err != nil {
		return err
	}
	s.outcomes = append(s.outcomes, outcome)
	each := s.clock.Since(s.began) / time.Duration(i+1)
	fmt.Fprintf(s.output, "plan %d of %d: %-12s %s (%.1f s; %.0f an hour, %s to go)\n", i+1, n, outcome.Result, name,
		outcome.Took.Seconds(), time.Hour.Seconds()/each.Seconds(), (each * time.Duration(n-i-1)).Round(time.Second))
	for _, v := range outcome.Verdicts {
		if v.Result == invariant.Broken {
			fmt.Fprintf(s.output, "%s\n", v)
		}
	}
	if outcome.Result == run.Void || outcome.Result == run.Broken {
		for _, f := range outcome.Faults {
			fmt.Fprintf(s.output, "    fault: %s\n", f.Detail)
		}
	}
	if outcome.Result != run.Held {
		fmt.Fprintf(s.output, "    again: %s\n", s.replay(outcome))
	}
	return s.keep(fmt.Sprintf("%03d-%s", i+1, folder(name)), outcome, outcome.Result != run.Held)
}

// replay is the command that runs a plan again.
func (s *sweep) replay(o run.Outcome) string {
	if o.Plan == "" {
		return fmt.Sprintf("make prove SEED=%d PROVE_FLAGS=-clean=%d", s.options.seed, max(1, s.options.clean))
	}
	return fmt.Sprintf("make prove SEED=%d PLAN='%s'", s.options.seed, o.Plan)
}

// folder makes a name of a plan's ID that every file system takes.
func folder(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.", r) {
			return r
		}
		return '_'
	}, name), "_")
}

// keep writes down what a run was, if it is wanted.
func (s *sweep) keep(name string, o run.Outcome, wanted bool) error {
	if !wanted {
		return nil
	}
	dir := filepath.Join(s.options.dir, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making a folder for plan %s: %w", name, err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nagain: %s\n", o.Result, s.replay(o))
	for _, f := range o.Faults {
		fmt.Fprintf(&text, "fault: %s (happened %d times)\n", f.Detail, f.Happened)
	}
	for _, v := range o.Verdicts {
		fmt.Fprintf(&text, "%s\n", v)
	}
	if err := os.WriteFile(filepath.Join(dir, "verdicts.txt"), []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("keeping the verdicts: %w", err)
	}
	return saveHistory(filepath.Join(dir, "history.json"), o.History)
}

func saveHistory(path string, h *history.History) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keeping the history: %w", err)
	}
	defer func() {
		if closeErr := file.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("keeping the history: %w", closeErr)
		}
	}()
	return h.Encode(file)
}

// summary is what summary.json has.
type summary struct {
	Seed         uint64         `json:"seed"`
	Plans        int            `json:"plans"`
	PlansPerHour float64        `json:"plansPerHour"`
	Results      map[string]int `json:"results"`
	Clean        []run.Outcome  `json:"clean"`
	Outcomes     []run.Outcome  `json:"outcomes"`
}

// finish prints the table, writes the summary and says whether all has held.
func (s *sweep) finish() error {
	sum := summary{Seed: s.options.seed, Plans: len(s.outcomes), Results: map[string]int{}, Clean: s.clean, Outcomes: s.outcomes}
	if took := s.clock.Since(s.began).Hours(); len(s.outcomes) > 0 {
		sum.PlansPerHour = float64(len(s.outcomes)) / took
	}
	for _, o := range s.outcomes {
		sum.Results[string(o.Result)]++
	}
	if err := table(s.output, s.outcomes); err != nil {
		return err
	}
	fmt.Fprintf(s.output, "%d plans, %.0f an hour: %d held, %d broken, %d inconclusive, %d void\n", sum.Plans, sum.PlansPerHour,
		sum.Results[string(run.Held)], sum.Results[string(run.Broken)], sum.Results[string(run.Inconclusive)], sum.Results[string(run.Void)])
	text, err := json.MarshalIndent(sum, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the summary: %w", err)
	}
	if err := os.MkdirAll(s.options.dir, 0o750); err != nil {
		return fmt.Errorf("making the folder of the summary: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.options.dir, "summary.json"), text, 0o600); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	for _, o := range slices.Concat(s.clean, s.outcomes) {
		if o.Result != run.Held {
			return errFound
		}
	}
	return nil
}

// table shows for each invariant what became of it.
func table(output io.Writer, outcomes []run.Outcome) error {
	counts := map[string]map[invariant.Result]int{}
	for _, o := range outcomes {
		for _, v := range o.Verdicts {
			if counts[v.Invariant] == nil {
				counts[v.Invariant] = map[invariant.Result]int{}
			}
			counts[v.Invariant][v.Result]++
		}
	}
	w := tabwriter.NewWriter(output, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\n\theld\tbroken\tinconclusive")
	for _, i := range invariant.All() {
		if c := counts[i.ID]; c != nil {
			fmt.Fprintf(w, "%s %s\t%d\t%d\t%d\n", i.ID, i.Name, c[invariant.Held], c[invariant.Broken], c[invariant.Inconclusive])
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return nil
}
