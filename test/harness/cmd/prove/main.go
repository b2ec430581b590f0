// SPDX-License-Identifier: Apache-2.0

// Command prove runs a shipped operator, injects a fault at each of its writes, and checks the audit
// log of the API server for violations of invariants. The README of the module shows the first steps.
//
// The exit code is 1 if an invariant was violated or a plan could not be judged, and 2 if prove could
// not do its work.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/docs"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/learn"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/sandbox"
	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
)

// errFound means that the operator failed, and not this program.
var errFound = errors.New("there are findings")

func main() {
	// Only root may isolate replicas, and every user in a user namespace.
	code, entered, err := sandbox.Enter()
	if err != nil {
		fmt.Fprintf(os.Stderr, "prove: %v\n", err)
	}
	if !entered {
		code = program.Run("prove", errFound, execute)
	}
	os.Exit(code)
}

// execute runs the subcommand of the arguments.
func execute(ctx context.Context, args []string, output io.Writer) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(output)
	return root.ExecuteContext(ctx)
}

// newRoot returns the command, which runs plans unless a subcommand is named.
func newRoot() *cobra.Command {
	root := newRun(prove)
	root.Long = `prove runs the shipped operator on a real control plane, injects a fault at each of its writes, and
checks the audit log of the API server for violations of the invariants. The exit code is 1 if an
invariant was violated or a plan could not be judged, and 2 if prove could not do its work.`
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = version()
	root.SetVersionTemplate("prove {{.Version}}\n")
	root.AddCommand(newMerge(merge), newInit(describe), newSchema(),
		newPage("faults", "Print the documentation of the faults, with the bugs that each has found", docs.Faults),
		newPage("invariants", "Print the documentation of the invariants, with an example of a bug for "+
			"each", docs.Invariants))
	return root
}

// prove runs plans.
func prove(ctx context.Context, o options, stdout io.Writer) error {
	return inForm(o.output, o.dir, stdout, func(output io.Writer) error { return proveTo(ctx, o, output) })
}

// inForm does work that writes a summary into dir. With the form JSON, standard output has the
// summary alone.
func inForm(form, dir string, stdout io.Writer, work func(output io.Writer) error) error {
	if form != outputJSON {
		return work(stdout)
	}
	err := work(os.Stderr)
	if err != nil && !errors.Is(err, errFound) {
		return err
	}
	summary, undone := os.ReadFile(filepath.Join(dir, "summary.json"))
	if undone == nil {
		_, undone = stdout.Write(summary)
	}
	if undone != nil {
		return errors.Join(err, program.Undone(fmt.Errorf("printing the summary: %w", undone)))
	}
	return err
}

func proveTo(ctx context.Context, o options, output io.Writer) (err error) {
	s, err := load(ctx, o, output)
	if err != nil {
		return err
	}
	for _, note := range s.Notes {
		fmt.Fprintln(output, note)
	}
	base, err := loadBase(o.base)
	if err != nil {
		return err
	}
	s.Operator.Report = func(text string) { fmt.Fprintln(output, text) }
	wanted, err := chosenScenarios(s.Scenarios, o.scenarios, o.plan)
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
	sw := newSweep(o, s.Contract, output)
	sw.base = base
	err = program.Undone(proveAll(ctx, o, s, wanted, random, sw))
	// An interrupted sweep still reports its results so far.
	return errors.Join(err, sw.finish(err))
}

// load builds missing programs and loads the subject. A wrong path is an error before minutes go into a build;
// the manifests are rendered after it, because kustomize is a part of the control plane's kubectl.
func load(ctx context.Context, o options, output io.Writer) (*subject.Suite, error) {
	f, err := subject.Read(o.subject)
	if err != nil {
		return nil, err
	}
	if err := f.CheckPaths(); err != nil {
		return nil, fmt.Errorf("reading the subject %s: %w", o.subject, err)
	}
	if err := ensure(ctx, f.NeedsHelm(), f.NeedsS3(), output); err != nil {
		return nil, err
	}
	return subject.Load(ctx, o.subject, o.manager)
}

// isolationNotice is a line about replicas that should run like Pods and cannot, or "".
func isolationNotice(missing error) string {
	if missing == nil {
		return ""
	}
	return fmt.Sprintf("replicas are not isolated, they share ports and files: %v\n", missing)
}

// proveAll starts what is needed, and stops it.
func proveAll(ctx context.Context, o options, s *subject.Suite, wanted []scenario.Scenario, random *rand.Rand,
	sw *sweeper) error {
	fleet := run.StartFleet(ctx, run.Options{Subject: s.Subject, Random: random}, o.workers)
	return errors.Join(sw.run(ctx, fleet, wanted), learn.NoteNotEnded(sw.output, fleet.Stop(ctx)))
}

// whole are the scenarios in which everything is tried, or all if there is none:
// clean runs of the others would take longer than the few plans of a smoke test.
func whole(all []scenario.Scenario) []scenario.Scenario {
	some := slices.DeleteFunc(slices.Clone(all), func(s scenario.Scenario) bool { return len(s.Faults) > 0 })
	if len(some) == 0 {
		return all
	}
	return some
}

// chosenScenarios are all, or those that are named, or the one that the plan is of.
func chosenScenarios(all []scenario.Scenario, names []string, plan string) ([]scenario.Scenario, error) {
	if plan != "" {
		p, err := run.ParsePlan(plan)
		if err != nil {
			return nil, err
		}
		names = []string{p.Scenario}
	}
	var some []scenario.Scenario
	var known []string
	for _, s := range all {
		known = append(known, s.Name)
		if len(names) == 0 || slices.Contains(names, s.Name) {
			some = append(some, s)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("looking for the scenario: none is called %q; there are %q", name, known)
		}
	}
	return some, nil
}
