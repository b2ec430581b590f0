// Command prove breaks the operator as it ships in known ways, at each of its
// writes, and judges it by what the API server has recorded. `make prove` runs it.
//
//	prove -manager bin/manager                    all plans
//	prove -manager bin/manager -smoke             one plan of each perturbation
//	prove -manager bin/manager -seed 7 -plan ID   one plan again
//
// It ends with 1 if a promise was broken or a plan could not be judged, and with
// 2 if it could not do its work.
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

	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// errFound says that the operator, and not this program, is at fault.
var errFound = errors.New("not every plan has held")

func main() {
	//nolint:forbidigo // a program begins with no context
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 0
	if err := prove(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		code = 2
		if errors.Is(err, errFound) {
			code = 1
		}
	}
	stop()
	os.Exit(code)
}

// options are the command line.
type options struct {
	manager, config, dir, plan string
	seed                       uint64
	smoke, keep                bool
	clean                      int
	match                      *regexp.Regexp
}

func parse(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("prove", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.manager, "manager", "bin/manager", "Program of the operator.")
	flags.StringVar(&o.config, "config", "config", "Folder of the manifests.")
	flags.StringVar(&o.dir, "dir", "artifacts/prove", "Folder for the summary and for what did not hold.")
	flags.StringVar(&o.plan, "plan", "", "ID of the one plan to run; empty runs all.")
	flags.Uint64Var(&o.seed, "seed", 0, "Seed of all random choices; 0 takes a new one.")
	flags.BoolVar(&o.smoke, "smoke", false, "Run one plan of each perturbation only.")
	match := flags.String("match", "", "Run the plans only whose ID has this regular expression in it, for example :P3:.")
	flags.BoolVar(&o.keep, "keep", false, "Keep the histories of what has held too.")
	flags.IntVar(&o.clean, "clean", 0, "Run this many more clean runs and no plans, to look for false alarms.")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("reading the arguments: unexpected %q", flags.Arg(0))
	}
	if o.match, err = regexp.Compile(*match); err != nil {
		return o, fmt.Errorf("reading -match: %w", err)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64() //nolint:forbidigo // where a seed comes from
	}
	return o, nil
}

func prove(ctx context.Context, args []string, output io.Writer) (err error) {
	o, err := parse(args, output)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	s, err := chosenScenario(o.plan)
	if err != nil {
		return err
	}
	fmt.Fprintf(output, "seed %d\n", o.seed)
	random := rand.New(rand.NewPCG(o.seed, 0))
	subject := leasehold(o.manager, o.config)
	prover, err := run.Start(ctx, run.Options{Subject: subject, Random: random})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prover.Stop(ctx)) }()
	sw := newSweep(o, subject.Promises, output)
	// Who breaks it off wants to know what was found until then.
	return errors.Join(sw.run(ctx, prover, s), sw.finish())
}

// chosenScenario is the one of the plan, or the only one that there is.
func chosenScenario(plan string) (scenario.Scenario, error) {
	all, err := scenarios()
	if err != nil {
		return scenario.Scenario{}, err
	}
	if plan == "" {
		return all[0], nil
	}
	p, err := scenario.ParsePlan(plan)
	if err != nil {
		return scenario.Scenario{}, err
	}
	for _, s := range all {
		if s.Name == p.Scenario {
			return s, nil
		}
	}
	return scenario.Scenario{}, fmt.Errorf("looking for the scenario of plan %s: there is none called %q", plan, p.Scenario)
}
