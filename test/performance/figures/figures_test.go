package figures_test

import (
	"math"
	"testing"

	. "leasehold.dev/test/performance/figures"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		goal *Goal
		runs []float64
		want Verdict
	}{
		"NoRuns":          {AtMost(1), nil, Absent},
		"NoRunsNoGoal":    {nil, nil, Absent},
		"NoGoal":          {nil, []float64{3}, Reported},
		"Below":           {AtMost(1), []float64{0.5, 1}, Met},
		"OneAbove":        {AtMost(1), []float64{0.5, 1.1, 0.2}, Missed},
		"MedianBelow":     {MedianAtMost(1), []float64{9, 0.5, 1}, Met},
		"MedianAbove":     {MedianAtMost(1), []float64{9, 0.5, 1.1}, Missed},
		"MedianOfTwo":     {MedianAtMost(1), []float64{0, 2.1}, Missed},
		"Exactly":         {Exactly(2), []float64{2, 2}, Met},
		"OneLess":         {Exactly(2), []float64{2, 1}, Missed},
		"NotANumber":      {AtMost(1), []float64{0, math.NaN()}, Missed},
		"NoNumberAsZero":  {Exactly(0), []float64{math.NaN()}, Missed},
		"MedianNoNumber":  {MedianAtMost(1), []float64{math.NaN()}, Missed},
		"Endless":         {AtMost(1), []float64{math.Inf(1)}, Missed},
		"AtMostIsAllowed": {AtMost(0), []float64{0}, Met},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (Figure{Runs: tc.runs, Goal: tc.goal}).Verdict(); got != tc.want {
				t.Errorf("verdict of %v: %s, want %s", tc.runs, got, tc.want)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0, "s", "0 s"},
		{14.9372, "s", "14.94 s"},
		{0.9999, "s", "999.9 ms"},
		{0.0123, "s", "12.3 ms"},
		{0.0000042, "s", "4.2 µs"},
		{-0.5, "s", "-500 ms"},
		{1234, "s", "1234 s"},
		{676, "ms", "676 ms"},
		{3410, "ms", "3.41 s"},
		{812.54, "1/s", "812.5/s"},
		{7000, "", "7000"},
		{123456.7, "", "123457"},
		{1.0204, "", "1.02"},
		{0.5, "", "0.5"},
		{4667, "B", "4.6 KiB"},
		{-3, "B", "-3 B"},
		{math.NaN(), "s", "NaN s"},
		{math.Inf(1), "", "+Inf"},
	} {
		if got := Format(tc.value, tc.unit); got != tc.want {
			t.Errorf("%v of %q is written as %q, want %q", tc.value, tc.unit, got, tc.want)
		}
	}
}
