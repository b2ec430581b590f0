package figures

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

// The files that Write leaves.
const (
	JSONFile     = "report.json"
	MarkdownFile = "report.md"
)

// Write leaves the report in a folder, which it makes, as JSON and as Markdown. What cannot be
// written does not keep the rest from being written.
func (r Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for a report: %w", err)
	}
	markdown := os.WriteFile(filepath.Join(dir, MarkdownFile), []byte(r.String()), 0o644)
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, JSONFile), append(text, '\n'), 0o644)
	}
	return errors.Join(markdown, err)
}

// String is the report in Markdown, with aligned columns.
func (r Report) String() string {
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
			// An error may be of many lines, with what a compiler or a test has printed.
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
		panic(err) // a buffer takes everything
	}
	return text.String()
}

// row is a line of the table. The verdicts that need an action are in bold.
func (f Figure) row() string {
	low, middle, high, goal, verdict := "", "", "", "", string(f.Verdict())
	if len(f.Runs) > 0 {
		low, middle, high = format(slices.Min(f.Runs), f.Unit), format(f.Median(), f.Unit), format(slices.Max(f.Runs), f.Unit)
	}
	if f.Goal != nil {
		goal = "at most " + format(f.Goal.Value, f.Unit)
		if f.Goal.Exactly {
			goal = "exactly " + format(f.Goal.Value, f.Unit)
		} else if f.Goal.Median {
			goal = "median " + goal
		}
		if f.Verdict() != Met {
			verdict = "**" + verdict + "**"
		}
	}
	return strings.Join([]string{"| `" + f.ID + "`", strings.ReplaceAll(f.Title, "|", `\|`), strconv.Itoa(len(f.Runs)), low, middle,
		high, goal, verdict}, "\t| ") + "\t|"
}

// format writes a value with its unit as people read it: 0.0123 of "s" is 12.30ms.
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

// counts returns how many figures have each verdict, as text.
func (r Report) counts() string {
	var parts []string
	for _, v := range []Verdict{Met, Missed, Reported, Absent} {
		parts = append(parts, fmt.Sprintf("%d %s", len(r.With(v)), v))
	}
	if failed := r.Failed(); len(failed) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d sections broke off", len(failed), len(r.Sections)))
	}
	return strings.Join(parts, ", ")
}

// round leaves of a duration what matters of it.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// Machine is where it was measured.
type Machine struct {
	System string `json:"system"` // as in linux/amd64
	Cores  int    `json:"cores"`
	Memory uint64 `json:"memory"` // bytes
	Go     string `json:"go"`
	// Load is the mean number of processes that wanted to run in the minute before.
	Load float64 `json:"load"`
}

// ThisMachine describes where this process runs. Memory and Load are zero where
// there is no /proc to read them from.
func ThisMachine() Machine {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
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
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s of memory, %s, load %.2f before", m.System, m.Cores, format(float64(m.Memory), "B"),
		m.Go, m.Load)
}
