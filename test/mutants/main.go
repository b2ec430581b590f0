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
	"os/signal"
	"regexp"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var (
	// errSurvived says that it is the prover, or the operator, that is at fault.
	errSurvived = errors.New("not every mutant was killed")
	// errUndone says that it is this program.
	errUndone = errors.New("not all of the work could be done")
)

func main() {
	//nolint:forbidigo // a program begins with no context
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 0
	if err := mutants(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		code = exitCode(err)
	}
	stop()
	os.Exit(code)
}

// exitCode is what the program ends with. Who could not do all of the work says so:
// what was not tried has not survived.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errSurvived) && !errors.Is(err, errUndone):
		return 1
	}
	return 2
}

// options are the command line.
type options struct {
	root, dir string
	match     *regexp.Regexp
	baseline  bool
	keep      bool
	seed      uint64
}

func parse(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.root, "root", ".", "Folder of the repository.")
	flags.StringVar(&o.dir, "dir", "artifacts/mutants", "Folder for the table and for what was found.")
	match := flags.String("run", "", "Try only mutants whose name has this regular expression in it.")
	flags.BoolVar(&o.baseline, "baseline", true, "Run each plan on the operator as it is first: it has to hold there.")
	flags.BoolVar(&o.keep, "keep", false, "Keep the copies of the source that were changed.")
	flags.Uint64Var(&o.seed, "seed", 0, "Seed of all random choices; 0 takes a new one.")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("reading the arguments: unexpected %q", flags.Arg(0))
	}
	if o.match, err = regexp.Compile(*match); err != nil {
		return o, fmt.Errorf("reading -run: %w", err)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64() //nolint:forbidigo // where a seed comes from
	}
	return o, nil
}

func mutants(ctx context.Context, args []string, output io.Writer) error {
	o, err := parse(args, output)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
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
	// Control planes are started long after the beginning, by when the library wants to
	// have been told where its log goes.
	log.SetLogger(logr.Discard())
	fmt.Fprintf(output, "seed %d\n", o.seed)
	h := &hunt{options: o, output: output, clock: clock.RealClock{}, random: rand.New(rand.NewPCG(o.seed, 0))}
	if err = h.run(ctx, wanted); err != nil {
		err = fmt.Errorf("%w: %w", errUndone, err)
	}
	// Who breaks it off wants to know what was found until then.
	return errors.Join(err, h.finish(len(wanted)))
}
