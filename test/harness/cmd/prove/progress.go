// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// eraseLine returns to the beginning of the line and removes its text.
const eraseLine = "\r\x1b[K"

// terminal keeps a line with the progress below the text that is written. Without a terminal the line
// is not shown, since each run prints how far it is.
type terminal struct {
	mu    sync.Mutex
	to    io.Writer
	shows bool
	line  string
}

func newTerminal(to io.Writer) *terminal {
	file, isFile := to.(*os.File)
	return &terminal{to: to, shows: isFile && term.IsTerminal(int(file.Fd()))}
}

// Write implements io.Writer. The text consists of whole lines.
func (t *terminal) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.line == "" {
		return t.to.Write(text)
	}
	if _, err := io.WriteString(t.to, eraseLine); err != nil {
		return 0, err
	}
	n, err := t.to.Write(text)
	if err == nil {
		_, err = io.WriteString(t.to, t.line)
	}
	return n, err
}

// setProgress replaces the line; "" removes it. It reports whether the line is shown.
func (t *terminal) setProgress(line string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.shows {
		return false
	}
	t.line = line
	fmt.Fprint(t.to, eraseLine, line)
	return true
}
