// Package report writes down what the gate has found: for people one table in
// Markdown, with what stops the change first, and the same for machines in JSON.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/performance/gate/judge"
	"leasehold.dev/test/performance/gate/row"
)

// Report is what was found in one run.
type Report struct {
	// Base and Head are the commits, shortened.
	Base string `json:"base"`
	Head string `json:"head"`
	// Named is what the user called the base.
	Named string `json:"named"`
	// Seed is what chance was drawn from.
	Seed     uint64          `json:"seed"`
	Findings []judge.Finding `json:"findings"`
	// Notices are what else there is to know, in Markdown.
	Notices []string `json:"notices,omitempty"`
	// Took is how long all of it lasted.
	Took time.Duration `json:"took"`
}

// order is what comes first in the table. What is the same is not in it.
var order = []row.Verdict{row.Worse, row.Unclear, row.Allowed, row.Better, row.Gone, row.New}

// Rows returns the rows of a verdict from all checks.
func (r *Report) Rows(verdict row.Verdict) []row.Row {
	var all []row.Row
	for _, f := range r.Findings {
		all = append(all, f.Is(verdict)...)
	}
	return all
}

// Failed are the names of the checks that stop the change, or could not judge it.
func (r *Report) Failed() []string {
	var names []string
	for _, f := range r.Findings {
		if f.Err != "" || len(f.Is(row.Worse)) > 0 || len(f.Is(row.Unclear)) > 0 {
			names = append(names, f.Check)
		}
	}
	return names
}

// Undone says why the pair could not be judged; empty if it was.
func (r *Report) Undone() string {
	var why []string
	for _, f := range r.Findings {
		if f.Err != "" {
			first, _, _ := strings.Cut(f.Err, "\n")
			why = append(why, f.Check+": "+first)
		}
		for _, unclear := range f.Is(row.Unclear) {
			why = append(why, unclear.ID+": "+unclear.Reason)
		}
	}
	return strings.Join(why, "; ")
}

// Regression says what is worse, the first of it with its reason; empty if nothing is.
func (r *Report) Regression() string {
	worse := r.Rows(row.Worse)
	if len(worse) == 0 {
		return ""
	}
	text := worse[0].ID + ": " + strings.Join(strings.Fields(worse[0].Reason), " ")
	if n := len(worse) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// Replay is the line that runs only what has failed; empty if nothing has.
func (r *Report) Replay() string {
	failed := r.Failed()
	if len(failed) == 0 {
		return ""
	}
	return fmt.Sprintf("make gate BASE=%s GATE_FLAGS='-only %s -seed %d'", r.Base, strings.Join(failed, ","), r.Seed)
}

// Markdown is the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	r.verdict(&b)
	b.WriteString("\n| what | base | head | verdict |\n|---|---|---|---|\n")
	for _, verdict := range order {
		for _, x := range r.Rows(verdict) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", cell(x.ID), cell(x.Base), cell(x.Head), cell(verdictOf(x)))
		}
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "| %s | | | %s |\n", f.Check, cell(summary(f)))
	}
	for _, f := range r.Findings {
		if same := f.Is(row.Same); len(same) > 0 {
			fmt.Fprintf(&b, "\n<details><summary>%s: %d the same</summary>\n\n", f.Check, len(same))
			for _, x := range same {
				fmt.Fprintf(&b, "- `%s`: %s\n", x.ID, both(x))
			}
			b.WriteString("\n</details>\n")
		}
	}
	for _, notice := range r.Notices {
		fmt.Fprintf(&b, "\n%s\n", notice)
	}
	return b.String()
}

// verdict is what a reader wants to know first.
func (r *Report) verdict(b *strings.Builder) {
	regression, undone := r.Regression(), r.Undone()
	switch {
	case regression != "":
		fmt.Fprintf(b, "**Regression: %s**\n", regression)
	case undone != "":
		b.WriteString("**Could not be judged.**\n")
	default:
		fmt.Fprintf(b, "**No regression.**\n")
	}
	if undone != "" {
		fmt.Fprintf(b, "\nCould not be judged: %s\n", undone)
	}
	fmt.Fprintf(b, "\nhead %s against base %s (%s), in %s, seed %d\n", or(r.Head, "of no commit"), r.Base, r.Named, r.Took.Round(time.Second), r.Seed)
	if replay := r.Replay(); replay != "" {
		fmt.Fprintf(b, "\nOnly what has failed: `%s`\n", replay)
	}
}

func verdictOf(x row.Row) string {
	text := string(x.Verdict)
	if x.Verdict == row.Worse || x.Verdict == row.Unclear {
		text = "**" + text + "**"
	}
	if x.Reason != "" {
		text += ": " + x.Reason
	}
	return text
}

// summary is the line of a check: how many are the same, or why it has none.
func summary(f judge.Finding) string {
	text := fmt.Sprintf("%d the same (%s)", len(f.Is(row.Same)), f.Took.Round(time.Second))
	if f.Err != "" {
		return "**could not be judged**: " + f.Err
	}
	return text
}

func both(x row.Row) string {
	if x.Base == x.Head {
		return x.Head
	}
	return x.Base + ", now " + x.Head
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// cell keeps a text within a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("\n", " ", "|", "\\|").Replace(strings.TrimSpace(text))
}

// Save writes report.md and report.json into a folder.
func (r *Report) Save(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	for name, text := range map[string][]byte{"report.md": []byte(r.Markdown()), "report.json": append(text, '\n')} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}

// Load reads what was saved.
func Load(dir string) (*Report, error) {
	text, err := os.ReadFile(filepath.Join(dir, "report.json")) // #nosec G304 -- a folder of our own
	if err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	return r, nil
}

// Worse are the IDs of the rows that are worse, sorted.
func (r *Report) Worse() []string {
	var ids []string
	for _, x := range r.Rows(row.Worse) {
		ids = append(ids, x.ID)
	}
	slices.Sort(ids)
	return ids
}
