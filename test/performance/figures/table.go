package figures

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the report for a terminal.
func (r Report) WriteTable(w io.Writer) error {
	out := &printer{w: w}
	for _, line := range r.setting() {
		out.printf("%s\n", line)
	}
	for _, s := range r.Sections {
		out.printf("\n%s: %s (%s)\n\n", s.ID, s.Title, round(s.Took))
		s.table(out)
	}
	out.printf("\n%s\n", r.counts())
	for _, f := range r.Missed() {
		out.printf("%s\n", f.shortfall())
	}
	for _, s := range r.Failed() {
		out.printf("broke off: %s, see there\n", s.ID)
	}
	return out.err
}

func (s Section) table(out *printer) {
	if len(s.Figures) > 0 {
		// It writes what out.printf has seen fail no more, so its own errors are out's.
		aligned := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(aligned, "  %s\n", strings.Join(columns, "\t"))
		for _, f := range s.Figures {
			fmt.Fprintf(aligned, "  %s\n", strings.Join(f.cells(), "\t"))
		}
		out.note(aligned.Flush())
	}
	for _, f := range s.Figures {
		if f.Note != "" {
			out.printf("  %s: %s\n", f.ID, f.Note)
		}
	}
	if s.Text != "" {
		out.printf("\n%s\n", indent(s.Text))
	}
	if s.Failure != "" {
		out.printf("\n  broke off:\n%s\n", indent(s.Failure))
	}
}

// shortfall names a figure that does not keep its goal.
func (f Figure) shortfall() string {
	var found string
	switch {
	case len(f.Runs) == 0:
		return fmt.Sprintf("%s: %s (%s), goal %s", Absent, f.ID, f.Title, f.Goal.in(f.Unit))
	case f.Goal.Of == Median:
		found = "median " + Format(f.Median(), f.Unit)
	case f.Min() == f.Max():
		found = Format(f.Max(), f.Unit)
	default:
		found = Format(f.Min(), f.Unit) + " to " + Format(f.Max(), f.Unit)
	}
	return fmt.Sprintf("%s: %s (%s): %s, goal %s", Missed, f.ID, f.Title, found, f.Goal.in(f.Unit))
}

func indent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}

// printer keeps the first error, after which nothing is written.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) Write(data []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(data)
	p.note(err)
	return n, err
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *printer) note(err error) {
	if p.err == nil && err != nil {
		p.err = fmt.Errorf("writing a report: %w", err)
	}
}
