// Command testsummary summarizes a test run: it reads the JUnit reports of the runs, prints the
// failures and the skips, and prints the totals on the last line. It fails if a test failed, if a
// run failed for another reason, or if a report is missing, so that a run that never started does
// not count as passed.
//
//	testsummary unit:0:junit-unit.xml integration:1:junit-integration.xml
//
// Each argument is a run: its name, its exit status and its reports, separated by colons.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	if err := summarize(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "testsummary: %v\n", err)
		os.Exit(1)
	}
}

// errFailed means that tests failed. The output has the details.
var errFailed = errors.New("tests failed")

// run is one argument.
type run struct {
	name    string
	status  int
	reports []string
}

func parseRun(arg string) (run, error) {
	parts := strings.SplitN(arg, ":", 3)
	if len(parts) != 3 {
		return run{}, fmt.Errorf("reading argument %q: want name:status:reports", arg)
	}
	status, err := strconv.Atoi(parts[1])
	if err != nil {
		return run{}, fmt.Errorf("reading the exit status of run %s: %w", parts[0], err)
	}
	return run{parts[0], status, filepath.SplitList(parts[2])}, nil
}

// summarize writes the summary of the runs in args.
func summarize(w io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New("no run to summarize")
	}
	b, err := readBudgets(budgetsFile)
	if err != nil {
		return err
	}
	var all totals
	var lines []string
	for _, arg := range args {
		r, err := parseRun(arg)
		if err != nil {
			return err
		}
		t, err := read(r, b)
		if err != nil {
			return err
		}
		for _, name := range t.failures {
			lines = append(lines, fmt.Sprintf("FAILED   %s: %s", r.name, name))
		}
		for _, name := range t.skips {
			lines = append(lines, fmt.Sprintf("skipped  %s: %s", r.name, name))
		}
		fmt.Fprintf(w, "%-14s %s\n", r.name, t)
		all = all.plus(t)
	}
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w, all)
	if len(all.failures) > 0 {
		return errFailed
	}
	return nil
}
