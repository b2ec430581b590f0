// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/perf/benchunit"
)

// figure is a measured quantity with its runs.
type figure struct {
	// ID is a permanent name, as in W1.tenant.create, by which reports are compared.
	ID string `json:"id"`
	// Title describes the quantity in a few words.
	Title string `json:"title"`
	// Unit is the unit of each run: "s", "ms", "B", or "" for counts and ratios.
	Unit string `json:"unit,omitempty"`
	// Runs are the values of all runs in their order.
	Runs []float64 `json:"runs"`
	// Goal is the limit of the figure. Nil: it has none.
	Goal *goal `json:"goal,omitempty"`
	// Note explains the figure, such as the peer.
	Note string `json:"note,omitempty"`
}

// goal is a bound of a figure.
type goal struct {
	// Value is the bound, in the figure's unit.
	Value float64 `json:"value"`
	// Exactly requires the value; otherwise it is a maximum.
	Exactly bool `json:"exactly,omitempty"`
	// Median applies the goal to the median; otherwise each run must meet it.
	Median bool `json:"median,omitempty"`
}

// verdict compares a figure with its goal.
type verdict string

// A figure without runs is never met.
const (
	met      verdict = "met"
	missed   verdict = "missed"
	reported verdict = "reported" // without a goal
	absent   verdict = "not measured"
)

// verdict judges the figure by its goal.
func (f figure) verdict() verdict {
	switch {
	case len(f.Runs) == 0:
		return absent
	case f.Goal == nil:
		return reported
	}
	judged := f.Runs
	if f.Goal.Median {
		judged = []float64{f.median()}
	}
	for _, value := range judged {
		// NaN does not meet it.
		if value != f.Goal.Value && (f.Goal.Exactly || !(value < f.Goal.Value)) {
			return missed
		}
	}
	return met
}

// median returns the middle run, or the mean of the two middle runs. It panics without runs.
func (f figure) median() float64 {
	sorted := slices.Sorted(slices.Values(f.Runs))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// section is the result of one measurement.
type section struct {
	// ID is the short name of the measurement, as in writes.
	ID    string `json:"id"`
	Title string `json:"title"`
	// Text describes the measurement and its observations, in Markdown.
	Text    string        `json:"text,omitempty"`
	Figures []figure      `json:"figures"`
	Took    time.Duration `json:"took"`
	// Failure is the error that ended it; the figures are those before it.
	Failure string `json:"failure,omitempty"`
}

// report is the result of one run.
type report struct {
	Commit string `json:"commit"` // with -dirty if files were changed
	Seed   uint64 `json:"seed"`
	// Quick means that the runs are too few for meaningful figures.
	Quick    bool          `json:"quick,omitempty"`
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took"`
	Machine  machine       `json:"machine"`
	Sections []section     `json:"sections"`
}

// with returns the figures with a verdict, in the order of the sections.
func (r report) with(v verdict) (found []figure) {
	for _, s := range r.Sections {
		for _, f := range s.Figures {
			if f.verdict() == v {
				found = append(found, f)
			}
		}
	}
	return found
}

// failed returns the sections with a failure.
func (r report) failed() []section {
	return slices.DeleteFunc(slices.Clone(r.Sections), func(s section) bool { return s.Failure == "" })
}

// The files that write creates.
const (
	jsonFile     = "report.json"
	markdownFile = "report.md"
)

// write writes the report into a folder, which it creates, as JSON and as Markdown. If one fails,
// it still writes the other.
func (r report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for a report: %w", err)
	}
	markdown := os.WriteFile(filepath.Join(dir, markdownFile), []byte(r.String()), 0o644)
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, jsonFile), append(text, '\n'), 0o644)
	}
	return errors.Join(markdown, err)
}

// String returns the report in Markdown, with aligned columns.
func (r report) String() string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	printf := func(format string, args ...any) { fmt.Fprintf(w, format, args...) }
	printf("# Figures\n\n**%s**\n\n- commit %s, seed %d\n", r.counts(), cmp.Or(r.Commit, "unknown"), r.Seed)
	printf("- %s, in %s\n- %s\n", r.Started.UTC().Format("2006-01-02 15:04 MST"), round(r.Took), r.Machine)
	if r.Quick {
		printf("- quick: too little was measured for the figures to mean anything\n")
	}
	for _, s := range r.Sections {
		printf("\n## %s: %s\n\nIt took %s.\n", s.ID, s.Title, round(s.Took))
		if s.Failure != "" {
			// An error may have many lines of a compiler's or a test's output.
			printf("\n**It broke off:**\n\n    %s\n", strings.ReplaceAll(strings.TrimSpace(s.Failure), "\n", "\n    "))
		}
		if len(s.Figures) > 0 {
			printf("\n| ID\t| what\t| n\t| min\t| median\t| max\t| goal\t| verdict\t|\n| ---\t| ---\t| --:\t| --:\t| --:\t| --:\t| ---\t| ---\t|\n")
		}
		for _, f := range s.Figures {
			printf("%s\n", f.row())
		}
		printf("\n")
		for _, f := range s.Figures {
			if f.Note != "" {
				printf("- `%s`: %s\n", f.ID, f.Note)
			}
		}
		if s.Text != "" {
			printf("\n%s\n", strings.TrimSpace(s.Text))
		}
	}
	if err := w.Flush(); err != nil {
		panic(err) // a buffer accepts all writes
	}
	return text.String()
}

// row returns a line of the table. Verdicts that need an action are bold.
func (f figure) row() string {
	low, middle, high, bound, v := "", "", "", "", string(f.verdict())
	if len(f.Runs) > 0 {
		low, middle, high = format(slices.Min(f.Runs), f.Unit), format(f.median(), f.Unit), format(slices.Max(f.Runs), f.Unit)
	}
	if f.Goal != nil {
		bound = "at most " + format(f.Goal.Value, f.Unit)
		if f.Goal.Exactly {
			bound = "exactly " + format(f.Goal.Value, f.Unit)
		} else if f.Goal.Median {
			bound = "median " + bound
		}
		if f.verdict() != met {
			v = "**" + v + "**"
		}
	}
	return strings.Join([]string{"| `" + f.ID + "`", strings.ReplaceAll(f.Title, "|", `\|`), strconv.Itoa(len(f.Runs)), low, middle,
		high, bound, v}, "\t| ") + "\t|"
}

// format writes a value with a readable unit: 0.0123 of "s" is 12.30ms.
func format(value float64, unit string) string {
	switch unit {
	case "ms":
		return benchunit.Scale(value/1000, benchunit.Decimal) + "s"
	case "s":
		return benchunit.Scale(value, benchunit.Decimal) + "s"
	case "B":
		return benchunit.Scale(value, benchunit.Binary) + "B"
	}
	return fmt.Sprintf("%.4g", value)
}

// counts returns the number of figures with each verdict, as text.
func (r report) counts() string {
	var parts []string
	for _, v := range []verdict{met, missed, reported, absent} {
		parts = append(parts, fmt.Sprintf("%d %s", len(r.with(v)), v))
	}
	if failed := r.failed(); len(failed) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d sections broke off", len(failed), len(r.Sections)))
	}
	return strings.Join(parts, ", ")
}

// round rounds a duration to a readable precision.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// machine describes the machine of the measurement.
type machine struct {
	System string `json:"system"` // as in linux/amd64
	Cores  int    `json:"cores"`
	Memory uint64 `json:"memory"` // bytes
	Go     string `json:"go"`
	// Load is the load average of the minute before.
	Load float64 `json:"load"`
}

// thisMachine describes the machine of this process. Memory and Load are zero without /proc.
func thisMachine() machine {
	m := machine{System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if memory, err := proc.Meminfo(); err == nil && memory.MemTotalBytes != nil {
		m.Memory = *memory.MemTotalBytes
	}
	if load, err := proc.LoadAvg(); err == nil {
		m.Load = load.Load1
	}
	return m
}

// String describes the machine in a line.
func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s of memory, %s, load %.2f before", m.System, m.Cores, format(float64(m.Memory), "B"),
		m.Go, m.Load)
}
