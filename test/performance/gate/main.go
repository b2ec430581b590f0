// Command gate compares this checkout with its base and stops a change that makes
// something worse. `make gate BASE=<commit>` runs it.
//
//	gate -base origin/main                   all checks
//	gate -base origin/main -only benchmarks  one of them
//
// It ends with 1 if something is worse and no commit allows that, and with 2 if that
// could not be judged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/performance/gate/trees"
)

// errWorse reports that the change is at fault and not this program.
var errWorse = errors.New("the change makes something worse")

func main() { os.Exit(program.Run("gate", errWorse, gate)) }

// options are the command line.
type options struct {
	root, base, head, dir string
	only                  []string
	rounds                int
}

// checks are all there are.
var checks = []struct {
	name string
	run  func(context.Context, options, *trees.Trees) ([]finding, error)
}{
	{"benchmarks", checkBenchmarks},
	{"flakes", checkFlakes},
}

func parse(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.root, "root", ".", "Folder of the repository.")
	flags.StringVar(&o.base, "base", "", "Commit to compare with, from where the head branched off.")
	flags.StringVar(&o.head, "head", "",
		"Folder or commit to judge; empty is the repository with its uncommitted changes.")
	flags.StringVar(&o.dir, "dir", "artifacts/gate", "Folder for the report.")
	flags.IntVar(&o.rounds, "rounds", 6, "How often the benchmarks of each tree are run, in turns.")
	var known []string
	for _, check := range checks {
		known = append(known, check.name)
	}
	only := flags.String("only", "", "Checks to run, with commas between: "+strings.Join(known, ", ")+". Empty runs all.")
	if _, err = program.Parse(flags, args); err != nil {
		return o, err
	}
	if o.base == "" {
		return o, errors.New("reading -base: it is missing: make gate BASE=origin/main compares with that branch")
	}
	if o.rounds < leastRounds {
		return o, fmt.Errorf("reading -rounds: want at least %d, because fewer samples cannot differ significantly",
			leastRounds)
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return o, fmt.Errorf("finding folder %s: %w", o.dir, err)
	}
	if *only == "" {
		return o, nil
	}
	o.only = strings.Split(*only, ",")
	for _, name := range o.only {
		if !slices.Contains(known, name) {
			return o, fmt.Errorf("reading -only: unknown check %q: there are %s", name, strings.Join(known, ", "))
		}
	}
	return o, nil
}

func gate(ctx context.Context, args []string, output io.Writer) (err error) {
	o, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o750); err != nil {
		return fmt.Errorf("making a folder for the report: %w", err)
	}
	both, err := trees.Open(ctx, o.root, o.base, o.head)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, both.Close(context.WithoutCancel(ctx))) }()
	trailers, err := both.Trailers(ctx, allowTrailer)
	if err != nil {
		return err
	}
	var found []finding
	var failed []error
	for _, check := range checks {
		if len(o.only) > 0 && !slices.Contains(o.only, check.name) {
			continue
		}
		findings, err := check.run(ctx, o, both)
		if err != nil {
			failed = append(failed, fmt.Errorf("checking %s: %w", check.name, err))
		}
		found = append(found, findings...)
	}
	notices := allow(found, trailers)
	report := render(both.BaseCommit, found, notices)
	fmt.Fprint(output, report)
	if err := os.WriteFile(filepath.Join(o.dir, "report.md"), []byte(report), 0o600); err != nil {
		failed = append(failed, fmt.Errorf("writing the report: %w", err))
	}
	if n := len(worse(found)); n > 0 {
		err = fmt.Errorf("%w: %d findings, the first is %s", errWorse, n, worse(found)[0].id)
	}
	return errors.Join(err, program.Undone(errors.Join(failed...)))
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "gate: "+format+"\n", args...) }
