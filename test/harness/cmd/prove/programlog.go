// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
)

// logLines is the number of printed lines of an operator's log.
const logLines = 10

// programLog is the log of a program that is started again and again. All its processes append to one
// file.
type programLog struct {
	path string
	read int
	last string
}

// times matches the parts that differ between occurrences of the same line.
var times = regexp.MustCompile(`[0-9]+`)

// next returns the last of the lines that are new since the previous call, after the first of them,
// which names a wrong flag before the usage. Lines that differ from the previous ones by numbers alone
// are not repeated.
func (p *programLog) next() string {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return err.Error()
	}
	fresh := text[min(p.read, len(text)):]
	p.read = len(text)
	if len(bytes.TrimSpace(fresh)) == 0 {
		return "nothing"
	}
	lines := strings.Split(string(bytes.TrimRight(fresh, "\n")), "\n")
	end := strings.Join(lines[max(0, len(lines)-logLines):], "\n")
	if len(lines) > logLines {
		end = lines[0] + "\n...\n" + end
	}
	before := p.last
	if p.last = times.ReplaceAllString(end, ""); p.last == before {
		return "the same as before"
	}
	return end
}
