// SPDX-License-Identifier: Apache-2.0

// Command others runs the prover on pinned third-party operators, and compares the findings with the
// known findings. `make prove-others` runs it.
//
//	others                        all of them
//	others --run=rabbitmq         the operators whose name matches this regular expression
//	others -- --make --workers=2  with flags of prove
//
// Each operator has a folder: go.mod pins its modules and names its programs as tools,
// subject.yaml and the scenarios describe it to the prover, and known.yaml lists the findings.
// Where there is no subject.yaml, prepare.sh makes the operator and describes it. A program that make
// builds for other purposes has its version in known.yaml in place of a go.mod. Directories with neither
// are for operators that are built from their repository, and are skipped. The exit code is 1 if a
// finding is new or has disappeared.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/report"
)

// errDifferent reports that an operator's findings differ from the known ones.
var errDifferent = errors.New("not all findings are the known ones")

// options are the command line.
type options struct {
	folder, bin, dir, prover string
	flags                    []string // of the prover, besides those of known.yaml
	match                    *regexp.Regexp
}

func main() { os.Exit(program.Run("others", errDifferent, execute)) }

func execute(ctx context.Context, args []string, output io.Writer) error {
	var o options
	flags := flag.NewFlagSet("others", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.folder, "folder", "test/prove/others", "folder with a folder of each operator")
	flags.StringVar(&o.bin, "bin", "bin/others", "folder for the programs, and for links to the modules")
	flags.StringVar(&o.dir, "dir", "artifacts/prove-others", "folder for the reports")
	flags.StringVar(&o.prover, "prover", "bin/tools/prove", "program of the prover")
	pattern := flags.String("run", "", "prove only operators whose name has this regular expression in it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.flags = flags.Args()
	var err error
	if o.match, err = regexp.Compile(*pattern); err != nil {
		return fmt.Errorf("reading --run: %w", err)
	}
	return others(ctx, o, output)
}

func others(ctx context.Context, o options, output io.Writer) error {
	all, err := load(o.folder)
	if err != nil {
		return err
	}
	wanted := slices.DeleteFunc(all, func(op operator) bool { return !o.match.MatchString(op.name) })
	if len(wanted) == 0 {
		return fmt.Errorf("choosing operators: %s has none with %q in its name", o.folder, o.match)
	}
	c := clock.RealClock{}
	var errs, undone []error
	var table []string
	for _, op := range wanted {
		began := c.Now()
		line, err := op.prove(ctx, o, output)
		switch {
		case errors.Is(err, errDifferent):
			errs = append(errs, err)
		case err != nil:
			err = fmt.Errorf("proving %s: %w", op.name, err)
			undone, line = append(undone, err), err.Error()
		}
		table = append(table, fmt.Sprintf("%s (%s): %s", op.name, c.Since(began).Round(time.Second), line))
	}
	fmt.Fprintln(output)
	for _, line := range table {
		fmt.Fprintln(output, line)
	}
	return errors.Join(errors.Join(errs...), program.Undone(errors.Join(undone...)))
}

// prove builds the operator, proves it, and compares the findings. It returns a line about the
// result.
func (op operator) prove(ctx context.Context, o options, output io.Writer) (string, error) {
	version, err := op.build(ctx, filepath.Join(o.bin, op.name), output)
	if err != nil {
		return "", err
	}
	subject, err := op.subject(ctx, filepath.Join(o.bin, op.name), o.prover, output)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(o.dir, op.name)
	if err := op.sweep(ctx, o, subject, dir, output); err != nil {
		return "", err
	}
	sum, err := readSummary(filepath.Join(dir, "summary.json"))
	if err != nil {
		return "", err
	}
	d := compare(op.known, sum.Findings)
	d.write(output, op.file("known.yaml"))
	line := fmt.Sprintf("%s, %d plans: %d held, %d broken, %d inconclusive, %d void; %d findings, %d new, %d vanished; %s",
		version, sum.Plans,
		sum.Results[invariant.Held], sum.Results[invariant.Broken], sum.Results[invariant.Inconclusive],
		sum.Results[invariant.Void],
		len(sum.Findings), len(d.unknown), len(d.vanished), filepath.Join(dir, "summary.md"))
	if len(d.unknown)+len(d.vanished) > 0 {
		return line, fmt.Errorf("%s: %w", op.name, errDifferent)
	}
	return line, nil
}

// sweep runs the prover, which ends with 1 if there are findings. The seed is fixed: the same
// clean runs then lead to the same plans.
func (op operator) sweep(ctx context.Context, o options, subject, dir string, output io.Writer) error {
	// A report of a former run must not be taken for this one's.
	if err := os.RemoveAll(filepath.Join(dir, "summary.json")); err != nil {
		return fmt.Errorf("removing the former report: %w", err)
	}
	args := slices.Concat([]string{"--subject", subject, "--dir", dir, "--seed", strconv.Itoa(1)}, op.known.Flags, o.flags)
	command := exec.CommandContext(ctx, o.prover, args...)
	command.Stdout, command.Stderr = output, output
	err := command.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("running the prover: %w", err)
	}
	return nil
}

func readSummary(path string) (sum report.Summary, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return sum, fmt.Errorf("reading the prover's report: %w", err)
	}
	if err := json.Unmarshal(data, &sum); err != nil {
		return sum, fmt.Errorf("reading the prover's report %s: %w", path, err)
	}
	return sum, nil
}

// write prints how the findings differ from the known ones, and what to do.
func (d comparison) write(w io.Writer, known string) {
	for _, f := range d.unknown {
		fmt.Fprintf(w, "new finding: %s\n", f.Finding)
		for _, v := range f.Violations {
			fmt.Fprintf(w, "    %s: %s\n    in known.yaml: %q\n", v.Invariant, v.Message, violationOf(v))
		}
		fmt.Fprintf(w, "    again: %s\n    read its timeline, find the cause in the operator's code, and add it to %s\n",
			f.Runs[0].Replay, known)
	}
	for _, k := range d.vanished {
		fmt.Fprintf(w, "vanished finding: %q of %q (%s)\n    plan %s: if that holds now, find out why, and remove it from %s\n",
			k.Violations, k.Objects, k.Reason, cmp.Or(k.Plan, "of a clean run"), known)
	}
}
