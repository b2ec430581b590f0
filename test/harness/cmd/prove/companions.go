package main

import (
	"fmt"
	"io"
	"sync"

	"leasehold.dev/test/harness/subject"
)

// sharedWriter is a writer for several goroutines.
type sharedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// setProgress sets the progress of a terminal. It reports whether the terminal shows it.
func (w *sharedWriter) setProgress(line string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, isTerminal := w.to.(*terminal)
	return isTerminal && t.setProgress(line)
}

// reportCompanions makes the companions that end by themselves a part of the output, which may be
// written to at the same time. It returns the writer to use in place of it.
func reportCompanions(s *subject.Suite, output io.Writer) io.Writer {
	output = &sharedWriter{to: output}
	report := func(text string) { fmt.Fprintln(output, text) }
	s.Operator.Report = report
	if s.Elsewhere != nil {
		s.Elsewhere.Operator.Report = report
	}
	return output
}
