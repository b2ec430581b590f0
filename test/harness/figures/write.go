package figures

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The files that Write leaves, beside the plots.
const (
	JSONFile     = "report.json"
	MarkdownFile = "report.md"
)

// Write leaves the report in a folder, which it makes: as JSON, as Markdown, and
// each plot as SVG under its name. What cannot be written does not keep the rest
// from being written.
func Write(dir string, r Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for a report: %w", err)
	}
	errs := []error{
		writeFile(filepath.Join(dir, JSONFile), r.Encode),
		writeFile(filepath.Join(dir, MarkdownFile), r.WriteMarkdown),
	}
	names := map[string]bool{}
	for _, s := range r.Sections {
		for _, p := range s.Plots {
			if p.Name == "" || filepath.Base(p.Name) != p.Name || names[p.Name] {
				errs = append(errs, fmt.Errorf("writing plot %q of section %s: the name has to be that of one file and of no other plot", p.Name, s.ID))
				continue
			}
			names[p.Name] = true
			errs = append(errs, writeFile(filepath.Join(dir, p.file()), p.WriteSVG))
		}
	}
	return errors.Join(errs...)
}

func writeFile(path string, write func(io.Writer) error) error {
	var content bytes.Buffer
	if err := write(&content); err != nil {
		return err
	}
	return os.WriteFile(path, content.Bytes(), 0o644)
}
