// SPDX-License-Identifier: Apache-2.0

// Command mutants tests the prover. It applies one patch at a time to a copy of the operator's
// source. Each patch is a bug that other operators have had. The command then runs the plans that
// must find the bug. `make mutants` runs it.
//
//	mutants                   all of them, and their plans on the operator as it is
//	mutants --run=hot-loop    the mutants whose name matches this regular expression
//
// The exit code is 1 if a mutant survived or could not be tested, or if a plan has findings without
// a mutant.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/sandbox"
)

// errSurvived reports a defect of the prover or the operator, not of this package.
var errSurvived = errors.New("not every mutant was killed")

// options are the command line.
type options struct {
	root, folder, subject, dir string
	match                      *regexp.Regexp
	baseline, keep             bool
	seed                       uint64
	count                      int
}

func main() {
	// Only root may isolate replicas, and every user in a user namespace.
	code, entered, err := sandbox.Enter()
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
	}
	if !entered {
		code = program.Run("mutants", errSurvived, execute)
	}
	os.Exit(code)
}

func execute(ctx context.Context, args []string, output io.Writer) error {
	o, err := parse(args, output)
	if err != nil {
		return err
	}
	return try(ctx, o, output)
}

func parse(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.root, "root", ".", "folder of the operator's source, which is copied")
	flags.StringVar(&o.folder, "folder", "test/mutants", "folder of classes.yaml and the folder patches, below the root")
	flags.StringVar(&o.subject, "subject", "test/prove/subject.yaml", "path of the subject.yaml that describes the "+
		"operator, below the root")
	flags.StringVar(&o.dir, "dir", "artifacts/mutants", "folder for the table and for what was found")
	pattern := flags.String("run", "", "try only mutants whose name has this regular expression in it")
	flags.BoolVar(&o.baseline, "baseline", true, "run each plan on the operator as it is first: it has to hold there")
	flags.BoolVar(&o.keep, "keep", false, "keep the copies of the source that were changed")
	flags.IntVar(&o.count, "count", 1,
		"run the plans of each mutant so often, on new replicas and with other random numbers, or until it survives")
	seed := flags.Uint64("seed", 0, "seed of all random choices; 0 chooses a new seed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.seed = program.Seed(*seed)
	switch o.match, err = regexp.Compile(*pattern); {
	case flags.NArg() > 0:
		return o, fmt.Errorf("reading the arguments: unexpected %q", flags.Arg(0))
	case o.count < 1:
		return o, fmt.Errorf("reading --count: %d runs prove nothing: it has to be at least 1", o.count)
	case err != nil:
		return o, fmt.Errorf("reading --run: %w", err)
	}
	return o, nil
}

func try(ctx context.Context, o options, output io.Writer) (err error) {
	all, err := load(patchesIn(o.root, o.folder))
	if err != nil {
		return err
	}
	wanted := chosen(all, o.match)
	if len(wanted) == 0 {
		return fmt.Errorf("choosing mutants: none of %d has %s in its name", len(all), o.match)
	}
	clientLog, err := program.LogTo(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clientLog.Close()) }()
	// controller-runtime warns 30 s after the start if no logger is set.
	log.SetLogger(logr.Discard())
	fmt.Fprintf(output, "seed %d\n", o.seed)
	h := &hunt{options: o, output: output, clock: clock.RealClock{}, salt: record.NewSalt(),
		random: rand.New(rand.NewPCG(o.seed, 0))}
	err = program.Undone(h.run(ctx, wanted))
	// An interrupted run prints what was found until then.
	return errors.Join(err, h.finish(len(wanted)))
}
