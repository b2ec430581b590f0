// Command mutants proves the prover: it builds the operator with mistakes that
// others have made, one at a time, and each of them has to be found by the promise
// that it breaks. `make mutants` runs it.
//
//	mutants                 all of them, and their plans on the operator as it is
//	mutants -run hot-loop   those whose name has this regular expression in it
//
// It ends with 1 if a mutant has survived or could not be tried, or if a plan does
// not hold without one, and with 2 if it could not do its work.
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

	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/program"
)

// errSurvived marks a result: the prover, or the operator, has a defect, and not this
// program.
var errSurvived = errors.New("not every mutant was killed")

func main() { os.Exit(program.Run("mutants", errSurvived, mutants)) }

// options are the command line.
type options struct {
	root, dir string
	match     *regexp.Regexp
	baseline  bool
	keep      bool
	seed      uint64
	count     int
}

func parse(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.root, "root", ".", "Folder of the repository.")
	flags.StringVar(&o.dir, "dir", "artifacts/mutants", "Folder for the table and for what was found.")
	match := flags.String("run", "", "Try only mutants whose name has this regular expression in it.")
	flags.BoolVar(&o.baseline, "baseline", true, "Run each plan on the operator as it is first: it has to hold there.")
	flags.BoolVar(&o.keep, "keep", false, "Keep the copies of the source that were changed.")
	flags.IntVar(&o.count, "count", 1,
		"Run the plans of each mutant so often, on new replicas and with other random numbers, or until it survives.")
	if o.seed, err = program.Parse(flags, args); err != nil {
		return o, err
	}
	if o.count < 1 {
		return o, fmt.Errorf("reading -count: %d runs prove nothing: it has to be at least 1", o.count)
	}
	if o.match, err = regexp.Compile(*match); err != nil {
		return o, fmt.Errorf("reading -run: %w", err)
	}
	return o, nil
}

func mutants(ctx context.Context, args []string, output io.Writer) (err error) {
	o, err := parse(args, output)
	if err != nil {
		return err
	}
	all, err := load(patchesIn(o.root))
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
