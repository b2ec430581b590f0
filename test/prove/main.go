// Command prove breaks an operator as it ships in known ways, at each of its
// writes, and judges it by what the API server has recorded. `make prove` runs it.
//
//	prove                               ours, all plans of all scenarios
//	prove -smoke                        one plan of each perturbation
//	prove -seed 7 -plan ID              one plan again
//	prove -pairs 30m                    a second fault in the recovery from a first
//	prove -explore 30m                  change objects in the ways of their schemas
//	prove -subject its/subject.yaml     another operator
//	prove init -subject its ...         writes that file, and its scenarios
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
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/sandbox"
	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
	"leasehold.dev/test/harness/program"
)

// ours is the operator of this repository.
const ours = "test/prove/subject.yaml"

// errFound means that the operator failed, and not this program.
var errFound = errors.New("not every plan has held")

func main() {
	// Only root may isolate replicas, and every user in a user namespace.
	code, entered, err := sandbox.Enter()
	if err != nil {
		fmt.Fprintf(os.Stderr, "prove: %v\n", err)
	}
	if !entered {
		code = program.Run("prove", errFound, prove)
	}
	os.Exit(code)
}

// options are the command line.
type options struct {
	subject, manager, dir string
	scenario, plan        string
	seed                  uint64
	smoke, keep           bool
	clean                 int
	workers, repeat       int
	explore, pairs        time.Duration
	change                string
	match                 *regexp.Regexp
}

// away is what all plans in a namespace of another name have in their ID.
var away = ":" + string(scenario.Elsewhere) + ":"

// leaves reports whether the operator runs in a namespace of another name.
func (o options) leaves() bool {
	return o.clean == 0 && o.pairs == 0 && !o.smoke && (o.plan == "" || strings.Contains(o.plan, away)) &&
		o.match.MatchString(away)
}

func parse(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("prove", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.subject, "subject", ours, "File that describes the operator.")
	flags.StringVar(&o.manager, "manager", "",
		"Program of the operator in place of the subject's, which is not built then.")
	flags.StringVar(&o.dir, "dir", "artifacts/prove", "Folder for the summary and for what did not hold.")
	flags.StringVar(&o.scenario, "scenario", "", "Name of the one scenario to run; empty runs all.")
	flags.StringVar(&o.plan, "plan", "", "ID of the one plan to run; empty runs all.")
	flags.BoolVar(&o.smoke, "smoke", false,
		"Run one plan of each perturbation only, of the scenarios in which all are tried.")
	match := flags.String("match", "", "Run the plans only whose ID has this regular expression in it, for example :P3:.")
	flags.BoolVar(&o.keep, "keep", false, "Keep the histories of what has held too.")
	flags.IntVar(&o.clean, "clean", 0, "Run this many more clean runs and no plans, to look for false alarms.")
	flags.IntVar(&o.workers, "workers", 3, "Run so many plans side by side, each on a control plane of its own.")
	flags.IntVar(&o.repeat, "repeat", 1, "Run each plan this often, to see whether it gives the same each time.")
	flags.DurationVar(&o.explore, "explore", 0,
		"For this long, change the objects of the scenarios in all ways that their schema has, in place of plans.")
	flags.DurationVar(&o.pairs, "pairs", 0,
		"For this long, try second faults in the recoveries from crashes and stale starts, in place of plans.")
	flags.StringVar(&o.change, "change", "", "With -explore: the kind and the changes to make, and no others.")
	if o.seed, err = program.Parse(flags, args); err != nil {
		return o, err
	}
	if o.match, err = regexp.Compile(*match); err != nil {
		return o, fmt.Errorf("reading -match: %w", err)
	}
	if o.workers < 1 || o.repeat < 1 {
		return o, fmt.Errorf("reading the arguments: -workers=%d and -repeat=%d have to be at least 1", o.workers, o.repeat)
	}
	if o.pairs > 0 && (o.smoke || o.clean > 0 || o.plan != "" || o.repeat > 1 || o.explore > 0) {
		return o, errors.New("reading the arguments: -pairs excludes -smoke, -clean, -plan, -repeat and -explore")
	}
	if o.pairs < 0 {
		return o, fmt.Errorf("reading the arguments: -pairs=%s is no time to use", o.pairs)
	}
	if o.change != "" && o.explore <= 0 {
		return o, fmt.Errorf("reading the arguments: -change=%q needs -explore", o.change)
	}
	if o.plan != "" && o.repeat == 1 || o.change != "" {
		o.workers = 1
	}
	return o, nil
}

func prove(ctx context.Context, args []string, output io.Writer) (err error) {
	if len(args) > 0 && args[0] == "init" {
		return describe(ctx, args[1:], output)
	}
	o, err := parse(args, output)
	if err != nil {
		return err
	}
	s, err := subject.Load(ctx, o.subject, o.manager)
	if err != nil {
		return err
	}
	for _, note := range s.Notes {
		fmt.Fprintln(output, note)
	}
	output = reportCompanions(s, output)
	wanted, err := chosenScenarios(s.Scenarios, o.scenario, o.plan)
	if err != nil {
		return err
	}
	if o.smoke {
		wanted = whole(wanted)
	}
	fmt.Fprintf(output, "seed %d\n", o.seed)
	if s.Operator.Isolated {
		fmt.Fprint(output, isolationNotice(env.CheckIsolation()))
	}
	random := rand.New(rand.NewPCG(o.seed, 0))
	if err := report.Clear(o.dir); err != nil {
		return err
	}
	clientLog, err := program.LogTo(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clientLog.Close()) }()
	// The log of envtest does not belong into the output of a sweep.
	log.SetLogger(logr.Discard())
	if o.explore > 0 {
		return exploreAll(ctx, o, s, output)
	}
	sw := newSweep(o, s.Promises, output)
	err = program.Undone(proveAll(ctx, o, s, wanted, random, sw))
	// An interrupted sweep still reports its results so far.
	return errors.Join(err, sw.finish())
}

// isolationNotice is a line about replicas that should run like Pods and cannot, or "".
func isolationNotice(missing error) string {
	if missing == nil {
		return ""
	}
	return fmt.Sprintf("replicas are not isolated, they share ports and files: %v\n", missing)
}

// proveAll starts what is needed, and stops it.
func proveAll(ctx context.Context, o options, s *subject.Subject, wanted []scenario.Scenario, random *rand.Rand,
	sw *sweep) (err error) {
	if s.Elsewhere == nil && strings.Contains(o.plan, away) {
		return fmt.Errorf("running plan %s: the subject does not say how it is installed elsewhere", o.plan)
	}
	salt := record.NewSalt() // one for both fleets, because their runs are compared
	fleet, err := run.StartFleet(ctx, run.Options{Subject: s.Subject, Random: random, Salt: salt}, o.workers)
	if err != nil {
		return err
	}
	references, err := sw.run(ctx, fleet, wanted)
	if err = errors.Join(err, fleet.Stop(ctx)); err != nil || s.Elsewhere == nil || !o.leaves() {
		return err
	}
	if fleet, err = run.StartFleet(ctx, run.Options{Subject: *s.Elsewhere, Random: random, Salt: salt}, 1); err != nil {
		return err
	}
	return errors.Join(sw.elsewhere(ctx, fleet, *s.Elsewhere, references), fleet.Stop(ctx))
}

// whole are the scenarios in which everything is tried, or all if there is none:
// clean runs of the others would take longer than the few plans of a smoke test.
func whole(all []scenario.Scenario) []scenario.Scenario {
	var some []scenario.Scenario
	for _, s := range all {
		if len(s.Perturbations) == 0 {
			some = append(some, s)
		}
	}
	if len(some) == 0 {
		return all
	}
	return some
}

// chosenScenarios are all, or the one that is named or that the plan is of.
func chosenScenarios(all []scenario.Scenario, name, plan string) ([]scenario.Scenario, error) {
	if plan != "" {
		p, err := scenario.ParsePlan(plan)
		if err != nil {
			return nil, err
		}
		name = p.Scenario
	}
	if name == "" {
		return all, nil
	}
	var names []string
	for _, s := range all {
		if s.Name == name {
			return []scenario.Scenario{s}, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("looking for the scenario: none is called %q; there are %q", name, names)
}
