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

// teller prints what happens, one line each, with the seconds since the start.
// Several goroutines may use it.
type teller struct {
	began time.Time

	mu  sync.Mutex
	out io.Writer
}

func newTeller(out io.Writer) *teller { return &teller{began: time.Now(), out: out} }

// say prints a line about topic; more lines of the text are indented below it.
func (t *teller) say(topic, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ReplaceAll(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n", "\n"+strings.Repeat(" ", 25))
	fmt.Fprintf(t.out, "%6.1f s  %-14s  %s\n", time.Since(t.began).Seconds(), topic, text)
}

// block prints text as it is between empty lines.
func (t *teller) block(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "\n%s\n\n", strings.TrimRight(text, "\n"))
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

// cut leaves the beginning of each line: stack traces are for the log file.
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
