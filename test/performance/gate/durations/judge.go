package durations

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/testrun"
)

// times are what tests took, by their names.
type times map[string]struct {
	took   time.Duration
	passed bool
}

// timesOf adds up what has one name, as two specs may.
func timesOf(o testrun.Outcome) times {
	all := times{}
	for _, r := range o.Results {
		if r.State == testrun.Skipped {
			continue
		}
		one, known := all[r.Name]
		one.passed = (one.passed || !known) && r.State == testrun.Passed
		one.took += r.Took
		all[r.Name] = one
	}
	return all
}

// slower says whether a time is so much longer that somebody would notice it.
func slower(base, head time.Duration) bool {
	return head > 2*base && head-base > time.Second
}

// judge makes a row of the package, and one of each test that failed or is new and
// takes long. Candidates are those that look slower.
func judge(folder string, base, head times) (rows []row.Row, candidates []string) {
	whole := row.Row{ID: prefix + folder, Base: base.String(), Head: head.String(), Verdict: row.Same}
	if len(base) == 0 {
		whole.Base, whole.Verdict, whole.Reason = "", row.New, "no test of base to compare it with"
	}
	rows = append(rows, whole)
	for _, name := range slices.Sorted(maps.Keys(head)) {
		now := head[name]
		old, known := base[name]
		r := row.Row{ID: prefix + folder + "/" + name, Base: text(old.took), Head: text(now.took)}
		switch {
		case !now.passed:
			r.Verdict, r.Reason = row.Unclear, "it fails at head, so its time means nothing: make unit or make integration tells more"
		case known && !old.passed:
			r.Verdict, r.Reason = row.Unclear, "it failed at base, so there is no time to compare with"
		case known && slower(old.took, now.took):
			candidates = append(candidates, name)
			continue
		case !known && now.took > long:
			r.Base, r.Verdict, r.Reason = "", row.New, "a new test that takes more than "+text(long)+": everybody waits for it from now on"
		default:
			continue
		}
		rows = append(rows, r)
	}
	return rows, candidates
}

// confirm runs one test alone in both trees, in turns, and compares the best of each.
func confirm(ctx context.Context, folder, name string, base, head testrun.Suite) (row.Row, error) {
	var took [2][]time.Duration
	failed := false
	for range confirmations {
		for i, suite := range []testrun.Suite{base, head} {
			one, ok, err := alone(ctx, suite, folder, name)
			if err != nil {
				return row.Row{}, err
			}
			failed = failed || !ok
			took[i] = append(took[i], one)
		}
	}
	before, after := slices.Min(took[0]), slices.Min(took[1])
	r := row.Row{ID: prefix + folder + "/" + name, Base: text(before), Head: text(after), Verdict: row.Same}
	switch {
	case failed:
		r.Verdict, r.Reason = row.Unclear, "it looks slower, and does not pass each time alone"
	case slower(before, after):
		r.Verdict = row.Worse
		replay := fmt.Sprintf("go test -v -count=1 -run '^%s' ./%s", only(name), folder)
		if strings.HasPrefix(folder, integration) {
			replay = fmt.Sprintf("make integration GINKGO_FLAGS=\"--focus='%s'\"", only(name))
		}
		r.Reason = fmt.Sprintf("the best of %d runs alone is so much slower: find out what it waits for, or say in the change why it has to: %s", confirmations, replay)
	}
	return r, nil
}

// alone runs one test.
func alone(ctx context.Context, s testrun.Suite, folder, name string) (took time.Duration, ok bool, err error) {
	var o testrun.Outcome
	if strings.HasPrefix(folder, integration) {
		o, err = s.Specs(ctx, []string{"--focus=" + only(name)}, 1)
	} else {
		o, err = s.Go(ctx, []string{name}, 1)
	}
	if err == nil {
		err = ctx.Err()
	}
	one := timesOf(o)[name]
	return one.took, one.passed, err
}

// only matches the name: ginkgo has the suite's before it.
func only(name string) string { return regexp.QuoteMeta(name) + "$" }

func (t times) String() string {
	var sum time.Duration
	for _, one := range t {
		sum += one.took
	}
	return fmt.Sprintf("%d tests, %s", len(t), text(sum))
}

func text(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }
