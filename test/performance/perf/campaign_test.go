package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/performance/environment"
)

// finds is a measurement with one figure, which has to be at most 2. It lasts a
// second of the clock.
func finds(id string, clock *testclock.FakeClock, runs ...float64) measurement {
	return measurement{id, "1s", func(_ context.Context, b environment.Parameters) (figures.Section, error) {
		b.Say("run %d", 1)
		clock.Step(time.Second)
		return figures.Section{Title: "What " + id + " finds",
			Figures: []figures.Figure{{ID: id, Runs: runs, Goal: figures.AtMost(2)}}}, nil
	}}
}

// fails is a measurement that breaks off after its first figure.
func fails(id string, err error) measurement {
	return measurement{id, "1s", func(context.Context, environment.Parameters) (figures.Section, error) {
		return figures.Section{Figures: []figures.Figure{{ID: id, Runs: []float64{1}}}}, err
	}}
}

func TestWhatItEndsWith(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	met, missed, broken := finds("met", clock, 1), finds("missed", clock, 3), fails("broken", errors.New("no room"))
	absent := finds("absent", clock)
	for name, tc := range map[string]struct {
		chosen []measurement
		report bool
		quick  bool
		want   int
	}{
		"Met":             {[]measurement{met}, false, false, 0},
		"OnlyReported":    {[]measurement{fails("reported", nil)}, false, false, 0},
		"Missed":          {[]measurement{met, missed}, false, false, 1},
		"MissedInReport":  {[]measurement{met, missed}, true, false, 0},
		"MissedWhenQuick": {[]measurement{missed}, false, true, 0},
		"Broken":          {[]measurement{broken, met}, false, false, 2},
		"BrokenWhenQuick": {[]measurement{broken}, false, true, 2},
		"Absent":          {[]measurement{met, absent}, false, false, 2},
		"AbsentWhenQuick": {[]measurement{absent}, false, true, 2},
		"BrokenAndMissed": {[]measurement{missed, broken}, false, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCampaign(t, io.Discard)
			c.report.Quick, c.onlyReport = tc.quick, tc.report
			err := c.run(t.Context(), tc.chosen, environment.Checkout{})
			if got := program.ExitCode(err, errMissed); got != tc.want {
				t.Errorf("ends with %d, want %d: %v", got, tc.want, err)
			}
		})
	}
}

func newCampaign(t *testing.T, output io.Writer) *campaign {
	t.Helper()
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	return &campaign{clock: clock, output: output, dir: t.TempDir(), report: figures.Report{Seed: 7, Started: clock.Now()}}
}

func TestOneThatBreaksOffDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var said bytes.Buffer
	c := newCampaign(t, &said)
	clock := c.clock.(*testclock.FakeClock)
	g.Expect(c.run(t.Context(), []measurement{finds("first", clock, 1), fails("second", errors.New("no room")),
		finds("third", clock, 3)}, environment.Checkout{})).NotTo(Succeed())

	report := written(t, c.dir)
	g.Expect(report.Seed).To(BeEquivalentTo(7))
	g.Expect(report.Took).To(Equal(2 * time.Second))
	g.Expect(report.Sections).To(HaveLen(3))
	g.Expect(report.Sections[0]).To(HaveField("Took", time.Second))
	g.Expect(report.Sections[1]).To(And(HaveField("ID", "second"), HaveField("Failure", "no room"),
		HaveField("Figures", HaveLen(1))))
	g.Expect(report.Sections[2].ID).To(Equal("third"))
	g.Expect(said.String()).To(And(
		ContainSubstring("[    0s] first: run 1\n"), ContainSubstring("[    1s] third: run 1\n"),
		ContainSubstring("missed: third"), ContainSubstring(filepath.Join(c.dir, "report.md")),
	))
}

func TestWhoBreaksOffKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCampaign(t, io.Discard)
	ctx, interrupt := context.WithCancel(t.Context())
	breaksOff := measurement{"second", "1s", func(ctx context.Context, _ environment.Parameters) (figures.Section, error) {
		interrupt()
		<-ctx.Done()
		return figures.Section{Figures: []figures.Figure{{ID: "some", Runs: []float64{1}}}}, ctx.Err()
	}}
	never := measurement{"third", "1s", func(context.Context, environment.Parameters) (figures.Section, error) {
		t.Error("the third was begun")
		return figures.Section{}, nil
	}}
	err := c.run(ctx, []measurement{fails("first", nil), breaksOff, never}, environment.Checkout{})
	g.Expect(program.ExitCode(err, errMissed)).To(Equal(2))
	report := written(t, c.dir)
	g.Expect(report.Sections[0].Failure).To(BeEmpty())
	g.Expect(report.Sections[1].Figures).To(HaveLen(1))
	g.Expect(report.Sections[1].Failure).To(ContainSubstring("canceled"))
	g.Expect(report.Sections[2].Failure).To(ContainSubstring("canceled"))
}

func written(t *testing.T, dir string) figures.Report {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, figures.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	var report figures.Report
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestParseReport(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{"-quick": false, "-report": true} {
		o, err := parse([]string{args}, io.Discard)
		if err != nil || o.report != want {
			t.Errorf("%s: report is %t, %v, want %t", args, o.report, err, want)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := []measurement{{id: "a"}, {id: "b"}, {id: "c"}}
	for only, want := range map[string]string{"": "a, b, c", "b": "b", "c,a": "a, c", "a,a": "a"} {
		chosen, err := choose(all, only)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ids(chosen)).To(Equal(want))
	}
	_, err := choose(all, "b,d")
	g.Expect(err).To(MatchError(And(ContainSubstring(`"d"`), ContainSubstring("a, b, c"))))
	g.Expect(ids(all)).To(Equal("a, b, c"), "left as it was")
}
