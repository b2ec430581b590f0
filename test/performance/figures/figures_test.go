package figures_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	. "leasehold.dev/test/performance/figures"
)

func TestVerdict(t *testing.T) {
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
			if got := (Figure{Runs: tc.runs, Goal: tc.goal}).Verdict(); got != tc.want {
				t.Errorf("verdict of %v: %s, want %s", tc.runs, got, tc.want)
			}
		})
	}
}

// The report of one of everything that a report can have.
func TestWrite_Golden(t *testing.T) {
	r := Report{
		Commit:  "0123abc-dirty",
		Seed:    7,
		Started: time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC),
		Took:    754321 * time.Millisecond,
		Machine: Machine{System: "linux/amd64", Cores: 2, Memory: 24 << 30, Go: "go1.26.8", Load: 0.25},
		Sections: []Section{
			{
				ID: "failover", Title: "Until another leads", Took: 12 * time.Minute,
				Text: "The leader is killed.\n\nThen one waits.\n",
				Figures: []Figure{
					{ID: "F1.kill", Title: "killed | crashed", Runs: []float64{0.98, 1, 1.01}, Goal: AtMost(1.02),
						Note: "in lengths of a lease"},
					{ID: "F1.kill.peer", Title: "killed, the stock elector", Runs: []float64{1.27, 1.06}},
					{ID: "F2.stop", Title: "stopped", Unit: "s", Runs: []float64{0.0049, 0.0071, 0.065}, Goal: AtMost(0.05)},
					{ID: "F3.zombie", Title: "writes of the former leader", Runs: []float64{0, 0}, Goal: Exactly(0)},
				},
			},
			{
				ID: "scale", Title: "Many at a time", Took: 4300 * time.Millisecond,
				Failure: "starting a control plane: no room\nthe end of its log:\n  *no* room",
				Figures: []Figure{
					{ID: "W4.1000", Title: "1000 of them, over the time of the writes alone", Runs: []float64{1.31},
						Goal: MedianAtMost(1.15)},
					{ID: "W4.time", Title: "the time of 1000 of them", Unit: "ms", Runs: []float64{125250}},
					{ID: "M1", Title: "memory for each", Unit: "B", Goal: AtMost(4096)},
				},
			},
		},
	}
	dir := filepath.Join(t.TempDir(), "made")
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	markdown, err := os.ReadFile(filepath.Join(dir, MarkdownFile))
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, string(markdown), MarkdownFile)
	text, err := os.ReadFile(filepath.Join(dir, JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	var read Report
	if err := json.Unmarshal(text, &read); err != nil || read.String() != string(markdown) {
		t.Errorf("the report that is read back differs (%v):\n%s", err, text)
	}
}

func TestThisMachine(t *testing.T) {
	m := ThisMachine()
	if _, err := os.Stat("/proc/meminfo"); err == nil && m.Memory < 64<<20 || m.Cores < 1 {
		t.Errorf("got %+v", m)
	}
}
