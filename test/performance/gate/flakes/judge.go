package flakes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/testrun"
)

// said is how much of a failure a row tells, in bytes.
const said = 1500

// judge makes a row of each spec, and one of each failure that belongs to none of them.
func (r *runner) judge(folder string, specs []Spec, o testrun.Outcome, budget time.Duration) []row.Row {
	var rows []row.Row
	broken := false
	if o.Problem != "" && len(o.Results) == 0 {
		return append(untried(specs, "not run: see "+prefix+folder), r.problem(folder, specs, o))
	}
	for _, s := range specs {
		one := judge(s, o)
		switch one.Verdict {
		case row.Worse:
			broken = true
			one.Reason += "; " + r.replay(folder, s)
		case row.New:
			if one.Reason == "" {
				one.Reason = fmt.Sprintf("%s allow no more runs: %s", budget.Round(time.Second), r.replay(folder, s))
			}
		}
		rows = append(rows, one)
	}
	for _, result := range o.Results {
		if result.State == testrun.Failed && !slices.ContainsFunc(specs, func(s Spec) bool { return s.Name == result.Name }) {
			broken = true
			rows = append(rows, row.Row{ID: prefix + folder + "/" + result.Name, Head: "failed", Verdict: row.Worse,
				Reason: fmt.Sprintf("with the changed specs of the package this fails: %s; %s", oneLine(result.Said), r.replay(folder, specs...))})
		}
	}
	if o.Problem != "" && !broken {
		rows = append(rows, r.problem(folder, specs, o))
	}
	return rows
}

// problem is a row of all tests of a package.
func (r *runner) problem(folder string, specs []Spec, o testrun.Outcome) row.Row {
	return row.Row{ID: prefix + folder, Head: "failed", Verdict: row.Worse,
		Reason: fmt.Sprintf("the tests do not compile, or fail as a whole: %s; %s", oneLine(o.Problem), r.replay(folder, specs...))}
}

// judge counts what became of one spec.
func judge(s Spec, o testrun.Outcome) row.Row {
	r := row.Row{ID: id(s), Verdict: row.Same}
	passed := 0
	for _, result := range o.Results {
		if result.Name != s.Name {
			continue
		}
		switch result.State {
		case testrun.Passed:
			passed++
		case testrun.Failed:
			// Of specs only the last round is there.
			run := passed + 1
			if s.Focus != "" {
				run = o.Rounds + 1
			}
			r.Head, r.Verdict = fmt.Sprintf("failed in run %d of %d", run, times), row.Worse
			r.Reason = "it does not pass each time, so make it: " + oneLine(result.Said)
			return r
		case testrun.Skipped:
			r.Head, r.Verdict, r.Reason = "not run", row.New, "it skips itself here: "+oneLine(result.Said)
			return r
		}
	}
	if s.Focus != "" {
		passed = o.Rounds
	}
	r.Head = fmt.Sprintf("%d of %d passed", passed, times)
	if passed < times {
		r.Verdict = row.New
	}
	return r
}

// oneLine is a text for a cell of a table.
func oneLine(text string) string {
	return strings.Join(strings.Fields(testrun.Tail(text, said)), " ")
}
