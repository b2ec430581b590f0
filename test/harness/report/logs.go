// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// tailLines is the number of lines of each log in a failure.
const tailLines = 5

// LogTails returns the last lines of the replicas' logs; "" if there are none.
func (r *Run) LogTails() string {
	var tails strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Logs)) {
		text := strings.TrimSpace(string(r.Logs[name]))
		if text == "" {
			continue
		}
		lines, what := strings.Split(text, "\n"), "end of"
		if errs := ErrorLines(lines); len(errs) > 0 {
			lines, what = errs, "last errors in"
		}
		fmt.Fprintf(&tails, "    the %s the log of %s:\n", what, name)
		for _, line := range lines[max(0, len(lines)-tailLines):] {
			fmt.Fprintf(&tails, "        %s\n", line)
		}
	}
	return tails.String()
}

// errorLevel matches a line of a log with the level of an error: of zap in its two forms, klog,
// slog, logrus, and of Go itself. What follows such a line is often a stack.
var errorLevel = regexp.MustCompile(
	`(?i)"(level|severity)":\s*"(error|fatal|d?panic)|\blevel="?(error|fatal|panic)|\t(error|fatal|d?panic)\t|` +
		`^[EF]\d{4} \d\d:|^(panic|fatal error): `)

// stack matches the stack within a line of zap.
var stack = regexp.MustCompile(`,"stacktrace":"(\\.|[^"\\])*"`)

// ErrorLines returns the lines of a log with the level of an error, without the stacks in them.
func ErrorLines(lines []string) []string {
	var errs []string
	for _, line := range lines {
		if errorLevel.MatchString(line) {
			errs = append(errs, stack.ReplaceAllString(line, ""))
		}
	}
	return errs
}
