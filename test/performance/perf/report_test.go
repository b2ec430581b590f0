// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/golden"
)

func TestVerdict(t *testing.T) {
	atMost := func(value float64) *goal { return &goal{Value: value} }
	medianAtMost := func(value float64) *goal { return &goal{Value: value, Median: true} }
	exactly := func(value float64) *goal { return &goal{Value: value, Exactly: true} }
	for name, tc := range map[string]struct {
		goal *goal
		runs []float64
		want verdict
	}{
		"NoRuns":          {atMost(1), nil, absent},
		"NoRunsNoGoal":    {nil, nil, absent},
		"NoGoal":          {nil, []float64{3}, reported},
		"Below":           {atMost(1), []float64{0.5, 1}, met},
		"OneAbove":        {atMost(1), []float64{0.5, 1.1, 0.2}, missed},
		"MedianBelow":     {medianAtMost(1), []float64{9, 0.5, 1}, met},
		"MedianAbove":     {medianAtMost(1), []float64{9, 0.5, 1.1}, missed},
		"MedianOfTwo":     {medianAtMost(1), []float64{0, 2.1}, missed},
		"Exactly":         {exactly(2), []float64{2, 2}, met},
		"OneLess":         {exactly(2), []float64{2, 1}, missed},
		"NotANumber":      {atMost(1), []float64{0, math.NaN()}, missed},
		"NoNumberAsZero":  {exactly(0), []float64{math.NaN()}, missed},
		"MedianNoNumber":  {medianAtMost(1), []float64{math.NaN()}, missed},
		"Endless":         {atMost(1), []float64{math.Inf(1)}, missed},
		"AtMostIsAllowed": {atMost(0), []float64{0}, met},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (figure{Runs: tc.runs, Goal: tc.goal}).verdict(); got != tc.want {
				t.Errorf("verdict of %v: %s, want %s", tc.runs, got, tc.want)
			}
		})
	}
}

// testdata/report.json has one example of each part of a report.
func TestWrite_Golden(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", jsonFile))
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "made")
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{jsonFile, markdownFile} {
		written, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden.Assert(t, string(written), name)
	}
}

func TestThisMachine(t *testing.T) {
	m := thisMachine()
	if _, err := os.Stat("/proc/meminfo"); err == nil && m.Memory < 64<<20 || m.Cores < 1 {
		t.Errorf("got %+v", m)
	}
}
