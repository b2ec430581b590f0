// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"

	"leasehold.dev/test/harness/report"
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

// times matches the parts that differ between occurrences of the same line: numbers, and names with them.
var times = regexp.MustCompile(`[A-Za-z0-9-]*[0-9][A-Za-z0-9-]*`)

// next returns the end of the log: of the lines that are new since the previous call, those with the level of an
// error and the last one, or else the last ones after the first, which names a wrong flag before the usage. It does
// not repeat lines that differ from the previous ones only by numbers, by names with numbers, and by their order.
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
	if errs := report.ErrorLines(lines); len(errs) > 0 {
		lines = slices.Compact(append(errs, report.WithoutStack(lines[len(lines)-1])))
	}
	end := lines[max(0, len(lines)-logLines):]
	if len(lines) > logLines {
		end = slices.Insert(slices.Clone(end), 0, lines[0], "...")
	}
	before := p.last
	if p.last = times.ReplaceAllString(strings.Join(slices.Sorted(slices.Values(end)), "\n"), ""); p.last == before {
		return "the same as before"
	}
	return strings.Join(end, "\n")
}
