package figures

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The files that Write leaves.
const (
	JSONFile     = "report.json"
	MarkdownFile = "report.md"
)

// Write leaves the report in a folder, which it makes, as JSON and as Markdown. What cannot be
// written does not keep the rest from being written.
func Write(dir string, r Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for a report: %w", err)
	}
	return errors.Join(
		writeFile(filepath.Join(dir, JSONFile), r.Encode),
		writeFile(filepath.Join(dir, MarkdownFile), r.WriteMarkdown),
	)
}

func writeFile(path string, write func(io.Writer) error) error {
	var content bytes.Buffer
	if err := write(&content); err != nil {
		return err
	}
	return os.WriteFile(path, content.Bytes(), 0o644)
}
