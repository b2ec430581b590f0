package figures

import (
	"io"
	"strings"
)

// WriteMarkdown writes the report as a page.
func (r Report) WriteMarkdown(w io.Writer) error {
	out := &printer{w: w}
	out.printf("# Figures\n\n**%s**\n\n", r.counts())
	for _, line := range r.setting() {
		out.printf("- %s\n", line)
	}
	for _, s := range r.Sections {
		out.printf("\n## %s: %s\n\n", s.ID, s.Title)
		s.markdown(out)
	}
	missed, failed := r.Missed(), r.Failed()
	if len(missed)+len(failed) > 0 {
		out.printf("\n## Not as it should be\n\n")
	}
	for _, f := range missed {
		out.printf("- %s\n", f.shortfall())
	}
	for _, s := range failed {
		out.printf("- %s broke off, see there\n", s.ID)
	}
	return out.err
}

func (s Section) markdown(out *printer) {
	out.printf("It took %s.\n\n", round(s.Took))
	if s.Failure != "" {
		// An error may be of many lines, with what a compiler or a test has said.
		out.printf("**It broke off:**\n\n%s\n\n", quoted(s.Failure))
	}
	if len(s.Figures) > 0 {
		out.printf("| %s |\n|%s\n", strings.Join(columns, " | "), "---|---|--:|--:|--:|--:|---|---|")
		for _, f := range s.Figures {
			out.printf("| %s |\n", strings.Join(f.markdownCells(), " | "))
		}
		out.printf("\n")
	}
	for _, f := range s.Figures {
		if f.Note != "" {
			out.printf("- `%s`: %s\n", f.ID, f.Note)
		}
	}
	if s.Text != "" {
		out.printf("\n%s\n", strings.TrimRight(s.Text, "\n"))
	}
}

func (f Figure) markdownCells() []string {
	cells := f.cells()
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", `\|`)
	}
	cells[0] = "`" + cells[0] + "`"
	if last := len(cells) - 1; f.Goal != nil && f.Verdict() != Met {
		cells[last] = "**" + cells[last] + "**"
	}
	return cells
}

// quoted is text that Markdown leaves as it is.
func quoted(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
