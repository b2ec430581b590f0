package figures

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Format writes a value with its unit as people read it: 0.0123 of "s" is 12.3 ms,
// 812.5 of "1/s" is 812.5/s. Of what is not a whole number four digits are left.
func Format(value float64, unit string) string {
	switch {
	case unit == "ms":
		return Format(value/1000, "s")
	case unit == "s" && value != 0 && math.Abs(value) < 1:
		value, prefix := humanize.ComputeSI(value)
		return digits(value) + " " + prefix + "s"
	case unit == "B" && value >= 0 && value < math.MaxInt64:
		return humanize.IBytes(uint64(value))
	case unit == "":
		return digits(value)
	}
	if per, is := strings.CutPrefix(unit, "1/"); is {
		return digits(value) + "/" + per
	}
	return digits(value) + " " + unit
}

// digits are the four that matter, and all of a whole number.
func digits(value float64) string {
	if value == math.Trunc(value) || math.IsNaN(value) {
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	after := 3 - int(math.Floor(math.Log10(math.Abs(value))))
	if after <= 0 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(value, 'f', after, 64), "0"), ".")
}

// in says the goal in words, for values of a unit.
func (g Goal) in(unit string) string {
	switch value := Format(g.Value, unit); {
	case g.Exactly:
		return "exactly " + value
	case g.Of == Median:
		return "median at most " + value
	default:
		return "at most " + value
	}
}

var columns = []string{"ID", "what", "n", "min", "median", "max", "goal", "verdict"}

// cells are the columns of a figure.
func (f Figure) cells() []string {
	low, middle, high, goal := "", "", "", ""
	if len(f.Runs) > 0 {
		low, middle, high = Format(f.Min(), f.Unit), Format(f.Median(), f.Unit), Format(f.Max(), f.Unit)
	}
	if f.Goal != nil {
		goal = f.Goal.in(f.Unit)
	}
	return []string{f.ID, f.Title, strconv.Itoa(len(f.Runs)), low, middle, high, goal, string(f.Verdict())}
}

// counts says how many figures have which verdict.
func (r Report) counts() string {
	count := map[Verdict]int{}
	for _, s := range r.Sections {
		for _, f := range s.Figures {
			count[f.Verdict()]++
		}
	}
	var parts []string
	for _, v := range []Verdict{Met, Missed, Reported, Absent} {
		if count[v] > 0 || v == Met || v == Missed {
			parts = append(parts, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	if failed := len(r.Failed()); failed > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d sections broke off", failed, len(r.Sections)))
	}
	return strings.Join(parts, ", ")
}

// setting is what one has to know of a report before reading on.
func (r Report) setting() []string {
	lines := []string{
		fmt.Sprintf("commit %s, seed %d", orUnknown(r.Commit), r.Seed),
		fmt.Sprintf("%s, in %s", r.Started.UTC().Format("2006-01-02 15:04 MST"), round(r.Took)),
		r.Machine.String(),
	}
	if r.Quick {
		lines = append(lines, "quick: so little was measured that the figures say nothing")
	}
	return lines
}

// String describes the machine in a line.
func (m Machine) String() string {
	memory, load := "unknown memory", "unknown load"
	if m.Memory > 0 {
		memory = humanize.IBytes(m.Memory) + " of memory"
		load = fmt.Sprintf("load %.2f before", m.Load)
	}
	return fmt.Sprintf("%s, %d cores, %s, %s, %s", m.System, m.Cores, memory, m.Go, load)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// round leaves of a duration what matters of it.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
