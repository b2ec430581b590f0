package judge_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"leasehold.dev/test/performance/gate/judge"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/stage"
)

func TestOneCheckThatFailsDoesNotStopTheOthers(t *testing.T) {
	g, clock := NewWithT(t), clocktesting.NewFakeClock(time.Unix(0, 0))
	p := row.Pair{Bench: stage.Bench{Dir: t.TempDir(), Clock: clock, Say: t.Logf}}
	var dirs []string
	found, err := judge.Judge(t.Context(), []judge.Check{
		{"counts", func(context.Context, row.Pair) ([]row.Row, error) {
			clock.Step(time.Minute)
			return []row.Row{{ID: "counts/a", Verdict: row.Worse}}, errors.New("no control plane")
		}},
		{"schema", func(_ context.Context, p row.Pair) ([]row.Row, error) {
			dirs = append(dirs, p.Bench.Dir)
			return []row.Row{{ID: "schema/a", Verdict: row.Same}, {ID: "schema/b", Verdict: row.Better}}, nil
		}},
	}, p)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal([]judge.Finding{
		{Check: "counts", Rows: []row.Row{{ID: "counts/a", Verdict: row.Worse}}, Err: "no control plane", Took: time.Minute},
		{Check: "schema", Rows: []row.Row{{ID: "schema/a", Verdict: row.Same}, {ID: "schema/b", Verdict: row.Better}}},
	}))
	g.Expect(dirs).To(Equal([]string{filepath.Join(p.Bench.Dir, "schema")}))
	g.Expect(dirs[0]).To(BeADirectory())
	g.Expect(found[1].String()).To(Equal("2 compared, 1 better"))
}

func TestAfterAnInterruptionNoCheckBegins(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	found, err := judge.Judge(ctx, []judge.Check{
		{"first", func(context.Context, row.Pair) ([]row.Row, error) { cancel(); return nil, nil }},
		{"second", func(context.Context, row.Pair) ([]row.Row, error) { t.Error("it has begun"); return nil, nil }},
	}, row.Pair{Bench: stage.Bench{Dir: t.TempDir(), Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Say: t.Logf}})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(found).To(HaveLen(1))
}
