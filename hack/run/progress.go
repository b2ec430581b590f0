package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// progress prints one line for each thing that happens, with the seconds since the start.
// It is safe for concurrent use.
type progress struct {
	began time.Time

	mu  sync.Mutex
	out io.Writer
}

func newProgress(out io.Writer) *progress { return &progress{began: time.Now(), out: out} }

// printf prints a line about topic. It indents further lines of the text below the first.
func (p *progress) printf(topic, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.ReplaceAll(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n", "\n"+strings.Repeat(" ", 25))
	fmt.Fprintf(p.out, "%6.1f s  %-14s  %s\n", time.Since(p.began).Seconds(), topic, text)
}

// block prints text as it is between empty lines.
func (p *progress) block(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "\n%s\n\n", strings.TrimRight(text, "\n"))
}

// short returns path as seen from the working directory, when it is below that.
func short(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if below, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(below) {
		return below
	}
	return path
}

// cut shortens each line, because stack traces belong in the log file.
func cut(text string) string {
	const width = 160
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width]) + "..."
		}
	}
	return strings.Join(lines, "\n")
}
