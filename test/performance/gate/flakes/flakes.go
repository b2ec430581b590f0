package flakes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/testrun"
)

const (
	// prefix is how the ID of every row begins.
	prefix = "flakes/"
	// times is how often each spec is run.
	times = 20
	// goBudget and ginkgoBudget are how long those of one package may take: a suite
	// starts a control plane each time. total bounds them all.
	goBudget, ginkgoBudget, total = 2 * time.Minute, 5 * time.Minute, 20 * time.Minute
	// quickly is how much of that there is if it is to be quick.
	quickly = 20
)

// elsewhere are the folders whose tests are not run here, and what runs them.
var elsewhere = map[string]string{
	"test/e2e": "not run here, as it needs Docker: make e2e does",
}

// Check runs the changed specs of the head.
func Check(ctx context.Context, p row.Pair) ([]row.Row, error) {
	specs, err := Changed(p.Base.Dir, p.Head.Dir)
	if err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return []row.Row{{ID: prefix + "changed specs", Base: "0", Head: "0", Verdict: row.Same}}, nil
	}
	packages := map[string][]Spec{}
	for _, s := range specs {
		packages[s.Package] = append(packages[s.Package], s)
	}
	p.Bench.Say("flakes: %d specs of %d packages are new or changed", len(specs), len(packages))
	r, err := newRunner(ctx, p, specs)
	if err != nil {
		return nil, err
	}
	var rows []row.Row
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		of := packages[folder]
		if where, not := elsewhere[folder]; not {
			rows = append(rows, untried(of, where)...)
			continue
		}
		done, err := r.pkg(ctx, folder, of)
		if err != nil {
			return rows, err
		}
		rows = append(rows, done...)
	}
	return rows, nil
}

// untried are rows of specs that were not run.
func untried(specs []Spec, why string) []row.Row {
	var rows []row.Row
	for _, s := range specs {
		rows = append(rows, row.Row{ID: id(s), Head: "not run", Verdict: row.New, Reason: why})
	}
	return rows
}

func id(s Spec) string { return prefix + s.Package + "/" + s.Name }

// runner runs specs of one tree, as long as there is time.
type runner struct {
	row.Pair
	tree  testrun.Tree
	until time.Time
	// share divides the budgets.
	share time.Duration
}

func newRunner(ctx context.Context, p row.Pair, specs []Spec) (*runner, error) {
	tree, err := testrun.New(p.Head.Dir, p.Bench.Dir)
	if err != nil {
		return nil, err
	}
	tree.Race = testrun.HasRaceDetector(ctx)
	r := &runner{Pair: p, share: 1, tree: tree}
	if p.Bench.Quick {
		r.share = quickly
	}
	r.until = p.Bench.Clock.Now().Add(total / r.share)
	if slices.ContainsFunc(specs, func(s Spec) bool { return s.Focus != "" }) {
		r.tree.Ginkgo, err = testrun.FindGinkgo(ctx, p.Head.Dir, p.Bench.Dir)
	}
	return r, err
}

// pkg runs the specs of one package, which are all of one kind.
func (r *runner) pkg(ctx context.Context, folder string, specs []Spec) ([]row.Row, error) {
	budget := goBudget / r.share
	if specs[0].Focus != "" {
		budget = ginkgoBudget / r.share
	}
	if left := r.until.Sub(r.Bench.Clock.Now()); left < budget {
		budget = left
	}
	if budget <= 0 {
		return untried(specs, fmt.Sprintf("not run, as the %s for all packages were used up: %s", total/r.share, r.replay(folder, specs...))), nil
	}
	r.Bench.Say("flakes: compiling the tests of %s", folder)
	tests, problem, err := r.tree.Compile(ctx, "./"+folder)
	if err != nil || problem != "" {
		return r.judge(folder, specs, testrun.Outcome{Problem: problem}, budget), err
	}
	r.Bench.Say("flakes: up to %d runs of %d specs of %s, within %s", times, len(specs), folder, budget.Round(time.Second))
	bounded, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	outcome, err := run(bounded, tests, specs)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("running changed specs of %s: %w", folder, err)
	}
	return r.judge(folder, specs, outcome, budget), nil
}

func run(ctx context.Context, tests testrun.Suite, specs []Spec) (testrun.Outcome, error) {
	if specs[0].Focus != "" {
		return tests.Specs(ctx, focus(specs), times)
	}
	return tests.Go(ctx, names(specs), times)
}

// replay is the command that runs specs of one package as they are run here.
func (r *runner) replay(folder string, specs ...Spec) string {
	program, args := "go test", r.tree.GoArgs("./"+folder, names(specs), times)
	if specs[0].Focus != "" {
		program, args = "bin/tools/ginkgo run", r.tree.SpecArgs("./"+folder, focus(specs), times)
	}
	for i, arg := range args {
		if strings.ContainsAny(arg, "()|$^") {
			args[i] = "'" + arg + "'"
		}
	}
	return program + " " + strings.Join(args, " ")
}

func names(specs []Spec) []string {
	var all []string
	for _, s := range specs {
		all = append(all, s.Name)
	}
	return all
}

func focus(specs []Spec) []string {
	var all []string
	for _, s := range specs {
		all = append(all, "--focus-file="+s.Focus)
	}
	return all
}
