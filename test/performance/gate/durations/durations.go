package durations

import (
	"context"
	"fmt"
	"strings"
	"time"

	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/testrun"
)

const (
	// prefix is how the ID of every row begins.
	prefix = "durations/"
	// integration is where the suites are that ginkgo runs, and endToEnd what needs Docker.
	integration, endToEnd = "test/integration/", "test/e2e"
	// total is how long all of it may take, and briefly if it is to be quick.
	total, briefly = 10 * time.Minute, 40 * time.Second
	// confirmations is how often a test that looks slower is run alone in each tree.
	confirmations = 3
	// long is what a new test may take before it is told.
	long = time.Minute
)

// Check runs the tests that the change may affect in both trees.
func Check(ctx context.Context, p row.Pair) ([]row.Row, error) {
	packages, err := affected(ctx, p.Base.Dir, p.Head.Dir)
	if err != nil {
		return nil, err
	}
	c, err := newComparison(ctx, p, packages)
	if err != nil {
		return nil, err
	}
	budget := total
	if p.Bench.Quick {
		budget = briefly
	}
	p.Bench.Say("durations: tests of %d packages may be affected, %s to compare them", len(packages), budget)
	bounded, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	var rows []row.Row
	var without []string
	for _, one := range packages {
		if one.folder == endToEnd {
			rows = append(rows, row.Row{ID: prefix + one.folder, Verdict: row.New, Reason: "not run here, as it needs Docker: make e2e does"})
			continue
		}
		done, err := c.compare(bounded, one.folder)
		switch {
		case ctx.Err() != nil:
			return rows, ctx.Err()
		case bounded.Err() != nil:
			without = append(without, one.folder)
		case err != nil:
			return rows, fmt.Errorf("comparing the tests of %s: %w", one.folder, err)
		default:
			rows = append(rows, done...)
		}
	}
	return append(rows, summary(packages, without, budget)), nil
}

// summary says how much was compared.
func summary(packages []pkg, without []string, budget time.Duration) row.Row {
	r := row.Row{ID: prefix + "packages", Head: fmt.Sprintf("%d of %d compared", len(packages)-len(without), len(packages)), Verdict: row.Same}
	if len(without) > 0 {
		r.Verdict = row.New
		r.Reason = fmt.Sprintf("%s were not enough for %s: make unit and make integration have their times", budget, strings.Join(without, ", "))
	}
	return r
}

// comparison runs tests in both trees.
type comparison struct {
	row.Pair
	base, head testrun.Tree
}

func newComparison(ctx context.Context, p row.Pair, packages []pkg) (*comparison, error) {
	c := &comparison{Pair: p}
	var err error
	if c.base, err = testrun.New(p.Base.Dir, p.Bench.Dir); err != nil {
		return nil, err
	}
	if c.head, err = testrun.New(p.Head.Dir, p.Bench.Dir); err != nil {
		return nil, err
	}
	for _, one := range packages {
		if !strings.HasPrefix(one.folder, integration) {
			continue
		}
		// One program runs both, so that it makes no difference.
		if c.head.Ginkgo, err = testrun.FindGinkgo(ctx, p.Head.Dir, c.head.Work); err != nil {
			return nil, err
		}
		c.base.Ginkgo = c.head.Ginkgo
		break
	}
	return c, nil
}

// compare runs all tests of a package in both trees, and those again that look slower.
func (c *comparison) compare(ctx context.Context, folder string) ([]row.Row, error) {
	began := c.Bench.Clock.Now()
	c.Bench.Say("durations: compiling and running the tests of %s in both trees", folder)
	base, missing, err := c.base.Compile(ctx, "./"+folder)
	if err != nil {
		return nil, err
	}
	head, problem, err := c.head.Compile(ctx, "./"+folder)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		return []row.Row{{ID: prefix + folder, Verdict: row.Unclear, Reason: "the tests of head do not compile: " + testrun.Tail(problem, 300)}}, nil
	}
	before := times{}
	if missing == "" {
		if before, err = all(ctx, base, folder); err != nil {
			return nil, err
		}
	}
	after, err := all(ctx, head, folder)
	if err != nil {
		return nil, err
	}
	rows, candidates := judge(folder, before, after)
	for _, name := range candidates {
		c.Bench.Say("durations: %s of %s took %s and takes %s; running it alone", name, folder, before[name].took, after[name].took)
		one, err := confirm(ctx, folder, name, base, head)
		if err != nil {
			return nil, err
		}
		rows = append(rows, one)
	}
	c.Bench.Say("durations: %s compared in %s", folder, c.Bench.Clock.Since(began).Round(time.Second))
	return rows, ctx.Err()
}

// all runs all tests once.
func all(ctx context.Context, s testrun.Suite, folder string) (times, error) {
	var o testrun.Outcome
	var err error
	if strings.HasPrefix(folder, integration) {
		o, err = s.Specs(ctx, nil, 1)
	} else {
		o, err = s.Go(ctx, nil, 1)
	}
	if err != nil {
		return nil, err
	}
	return timesOf(o), ctx.Err()
}
