// Package mutants proves the prover: it builds an operator with mistakes that others have made, one
// at a time, and the promise that a mistake breaks has to find it.
package mutants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"regexp"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/record"
)

// ErrSurvived reports a defect of the prover or the operator, not of this package.
var ErrSurvived = errors.New("not every mutant was killed")

// options are the command line.
type options struct {
	root, folder, subject, dir string
	pattern                    string
	match                      *regexp.Regexp // of pattern
	baseline                   bool
	keep                       bool
	seed                       uint64
	count                      int
}

// Command returns the command that tries mutants. It calls prepare with the file of the subject first.
func Command(prepare func(ctx context.Context, file string, output io.Writer) error) *cobra.Command {
	return newCommand(func(ctx context.Context, o options, output io.Writer) error {
		if err := prepare(ctx, filepath.Join(o.root, o.subject), output); err != nil {
			return err
		}
		return try(ctx, o, output)
	})
}

func newCommand(work func(ctx context.Context, o options, output io.Writer) error) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "mutants",
		Short: "Build the operator with known mistakes, each of which has to be found",
		Long: `mutants applies one patch at a time to a copy of the operator's source, and runs the plans in which
the mistake has to show. It ends with 1 if a mutant has survived or could not be tried, or if a plan
does not hold without one.`,
		Example: `  prove mutants                      # all of them, and their plans on the operator as it is
  prove mutants --run hot-loop       # those whose name has this regular expression in it`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return work(c.Context(), o, c.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.root, "root", ".", "folder of the operator's source, which is copied")
	flags.StringVar(&o.folder, "folder", "prove/mutants", "folder of classes.yaml and the folder patches, below the root")
	flags.StringVar(&o.subject, "subject", "prove/subject.yaml", "file that describes the operator, below the root")
	flags.StringVar(&o.dir, "dir", "artifacts/mutants", "folder for the table and for what was found")
	flags.StringVar(&o.pattern, "run", "", "try only mutants whose name has this regular expression in it")
	flags.BoolVar(&o.baseline, "baseline", true, "run each plan on the operator as it is first: it has to hold there")
	flags.BoolVar(&o.keep, "keep", false, "keep the copies of the source that were changed")
	flags.IntVar(&o.count, "count", 1,
		"run the plans of each mutant so often, on new replicas and with other random numbers, or until it survives")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of all random choices; 0 takes a new one")
	return c
}

func (o *options) complete() (err error) {
	o.seed = program.Seed(o.seed)
	if o.count < 1 {
		return fmt.Errorf("reading --count: %d runs prove nothing: it has to be at least 1", o.count)
	}
	if o.match, err = regexp.Compile(o.pattern); err != nil {
		return fmt.Errorf("reading --run: %w", err)
	}
	return nil
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
