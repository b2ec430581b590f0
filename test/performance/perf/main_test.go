// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/program"
)

// finds is a measurement with one figure and the goal "at most 2", and with this result.
func finds(id string, err error, runs ...float64) measurement {
	return measurement{id, "1s", func(ctx context.Context, b bench) (section, error) {
		b.logf("seed %d", b.seed)
		return section{Title: "What " + id + " finds",
			Figures: []figure{{ID: id, Runs: runs, Goal: &goal{Value: 2}}}}, errors.Join(err, ctx.Err())
	}}
}

func TestExitCode(t *testing.T) {
	met, missed, broken, absent := finds("met", nil, 1), finds("missed", nil, 3), finds("broken", errors.New("no"), 1),
		finds("absent", nil)
	for name, tc := range map[string]struct {
		chosen []measurement
		report bool
		quick  bool
		want   int
	}{
		"Met":             {[]measurement{met}, false, false, 0},
		"Missed":          {[]measurement{met, missed}, false, false, 1},
		"MissedInReport":  {[]measurement{met, missed}, true, false, 0},
		"MissedWhenQuick": {[]measurement{missed}, false, true, 0},
		"BrokenWhenQuick": {[]measurement{broken, met}, false, true, 2},
		"Absent":          {[]measurement{met, absent}, false, false, 2},
		"AbsentInReport":  {[]measurement{absent}, true, false, 2},
		"BrokenAndMissed": {[]measurement{missed, broken}, false, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := campaign{output: t.Output(), dir: t.TempDir(), onlyReport: tc.report}
			c.report.Quick, c.report.Started = tc.quick, time.Now()
			err := c.run(t.Context(), tc.chosen)
			if got := program.ExitCode(err, errMissed); got != tc.want {
				t.Errorf("ends with %d, want %d: %v", got, tc.want, err)
			}
		})
	}
}

func TestFailedMeasurementKeepsAllFigures(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	var output bytes.Buffer
	c := campaign{output: &output, dir: dir, report: report{Seed: 7, Started: time.Now()}}
	last := finds("last", nil, 1)
	measure := last.measure
	last.measure = func(ctx context.Context, b bench) (section, error) {
		interrupt()
		return measure(ctx, b)
	}
	err := c.run(ctx, []measurement{finds("first", errors.New("no room"), 1), finds("second", nil, 3), last, {id: "never"}})
	g.Expect(program.ExitCode(err, errMissed)).To(Equal(2))

	g.Expect(filepath.Join(dir, jsonFile)).To(BeARegularFile())
	g.Expect(c.report.Sections).To(HaveExactElements(
		And(HaveField("Failure", "no room"), HaveField("Figures", HaveLen(1))), HaveField("Failure", ""),
		And(HaveField("Failure", ContainSubstring("canceled")), HaveField("Figures", HaveLen(1))),
		HaveField("Failure", ContainSubstring("canceled"))))
	g.Expect(output.String()).To(And(ContainSubstring("] first: seed 7\n"), ContainSubstring("**missed**"),
		ContainSubstring(filepath.Join(dir, "report.md"))))
}

func TestOnlyNamesMeasurements(t *testing.T) {
	err := perf(t.Context(), []string{"-only", "pauses,d"}, t.Output())
	NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(`"d"`), ContainSubstring("scale,failover,pauses"))))
	NewWithT(t).Expect(perf(t.Context(), []string{"more"}, t.Output())).To(MatchError(ContainSubstring(`"more"`)))
}
