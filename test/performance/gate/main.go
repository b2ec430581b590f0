// SPDX-License-Identifier: Apache-2.0

// Command gate judges the measurements of hack/gate.sh of this checkout and its base, and prints
// the report. The exit code is 1 for a regression that no commit allows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"leasehold.dev/test/harness/program"
)

// errWorse reports a regression of the change, not a failure of this program.
var errWorse = errors.New("the change makes something worse")

func main() { os.Exit(program.Run("gate", errWorse, gate)) }

func gate(_ context.Context, args []string, output io.Writer) error {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	base := flags.String("base", "", "Commit that was compared with.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	before, err := readSamples(flags.Arg(0), "base")
	if err != nil {
		return err
	}
	after, err := readSamples(flags.Arg(0), "head")
	if err != nil {
		return err
	}
	found := compare(before, after)
	flakes, err := lines(filepath.Join(flags.Arg(0), "flakes.txt"))
	if err != nil {
		return err
	}
	for _, line := range flakes {
		f := strings.SplitN(line+"\t\t\t", "\t", 5)
		found = append(found, finding{id: f[0], verdict: verdict(f[1]), head: f[2], reason: f[3]})
	}
	trailers, err := lines(filepath.Join(flags.Arg(0), "allowed.txt"))
	if err != nil {
		return err
	}
	notices := allow(found, trailers)
	fmt.Fprint(output, render(*base, found, notices))
	if slices.ContainsFunc(found, func(f finding) bool { return f.verdict == worse }) {
		return errWorse
	}
	return nil
}

// lines returns the non-empty lines of a file, and none if the file does not exist.
func lines(path string) (all []string, err error) {
	text, err := os.ReadFile(path) // #nosec G304 -- the script names it
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading what was measured: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			all = append(all, line)
		}
	}
	return all, nil
}

type verdict string

const (
	same    verdict = "same"
	worse   verdict = "worse"
	better  verdict = "better"
	added   verdict = "new"
	allowed verdict = "allowed"
)

// finding is the result of one comparison.
type finding struct {
	id, base, head string
	verdict        verdict
	reason         string
}

// allow applies trailers to findings that are worse. A trailer is the beginning of an ID, a colon and the reason. It
// returns a notice for each trailer that matches no finding.
func allow(found []finding, trailers []string) (notices []string) {
	for _, value := range trailers {
		id, reason, _ := strings.Cut(value, ": ")
		used := false
		for i := range found {
			if f := &found[i]; f.verdict == worse && id != "" && reason != "" && strings.HasPrefix(f.id, id) {
				f.verdict, f.reason, used = allowed, reason, true
			}
		}
		if !used {
			notices = append(notices, fmt.Sprintf("`Gate-Allow: %s` has no effect: "+
				"nothing that begins so is worse, or it has no reason.", value))
		}
	}
	return notices
}

// render returns a Markdown table of the differences, regressions first.
func render(base string, found []finding, notices []string) string {
	var text strings.Builder
	counts := map[verdict]int{}
	for _, f := range found {
		counts[f.verdict]++
	}
	fmt.Fprintf(&text, "# Compared with %.12s\n\n%d worse, %d allowed, %d better, %d new, %d the same.\n",
		base, counts[worse], counts[allowed], counts[better], counts[added], counts[same])
	if len(found) > counts[same] {
		text.WriteString("\n| verdict | what | base | head | reason |\n|---|---|---|---|---|\n")
	}
	for _, v := range []verdict{worse, allowed, better, added} {
		for _, f := range found {
			if f.verdict == v {
				fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", v, f.id, f.base, f.head,
					strings.ReplaceAll(f.reason, "|", `\|`))
			}
		}
	}
	for _, notice := range notices {
		fmt.Fprintf(&text, "\n%s\n", notice)
	}
	return text.String()
}
