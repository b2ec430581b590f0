// Command gate compares the checkout with a base and stops a change that makes
// something worse. `make gate BASE=<commit>` runs it.
//
//	gate -base origin/main               all checks
//	gate -base origin/main -only counts  one of them
//	gate -base HEAD -learn 20            learns how far times differ by chance
//
// It ends with 1 if something is worse than at the base and the change does not say
// that it may be, and with 2 if that could not be judged.
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
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/internal/program"
	"leasehold.dev/test/performance/gate/allowance"
	"leasehold.dev/test/performance/gate/judge"
	"leasehold.dev/test/performance/gate/learned"
	"leasehold.dev/test/performance/gate/report"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/trees"
	"leasehold.dev/test/performance/stage"
)

// errWorse says that it is the change, and not this program, that is at fault.
var errWorse = errors.New("the change makes something worse")

func main() { os.Exit(program.Run("gate", errWorse, gate)) }

// options are the command line.
type options struct {
	root, base, head, dir, tolerance string
	only                             []string
	rounds, learn                    int
	seed                             uint64
}

func parse(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.root, "root", ".", "Folder of the repository.")
	flags.StringVar(&o.base, "base", "", "Commit to compare with; of its history, where the head has left it.")
	flags.StringVar(&o.head, "head", "", "Folder or commit to judge; empty, the repository as it lies there.")
	flags.StringVar(&o.dir, "dir", "artifacts/gate", "Folder for the report and for what the checks keep.")
	flags.StringVar(&o.tolerance, "tolerance", "test/performance/gate/tolerance.yaml", "File with what was learned of times, below -root.")
	flags.IntVar(&o.rounds, "rounds", 2, "How often each tree is measured, in turns.")
	flags.IntVar(&o.learn, "learn", 0, "Compare the base with itself so many times, and write -tolerance.")
	only := flags.String("only", "", "Checks to run, with commas; empty runs all: "+strings.Join(namesOf(checks(options{}, nil)), ", ")+".")
	if o.seed, err = program.Parse(flags, args); err != nil {
		return o, err
	}
	if o.base == "" {
		return o, errors.New("reading -base: it is missing: make gate BASE=origin/main compares with what is there")
	}
	if o.rounds < 1 || o.learn < 0 {
		return o, errors.New("reading -rounds and -learn: there have to be some rounds, and no fewer comparisons than none")
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	return o, nil
}

func gate(ctx context.Context, args []string, output io.Writer) error {
	o, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	log.SetLogger(logr.Discard())
	tolerances, err := learned.Load(filepath.Join(o.root, o.tolerance))
	if err != nil {
		return err
	}
	chosen, err := choose(checks(o, tolerances), o.only)
	if err != nil {
		return err
	}
	g := &run{options: o, clock: clock.RealClock{}, progress: os.Stderr, tolerances: tolerances}
	g.began = g.clock.Now()
	if o.learn > 0 {
		return g.learn(ctx, chosen)
	}
	r, err := g.compare(ctx, chosen)
	if r == nil {
		return err
	}
	return errors.Join(g.tell(r, output), program.Undone(err))
}

// run is one run of the program.
type run struct {
	options    options
	clock      clock.WithTicker
	began      time.Time
	progress   io.Writer
	tolerances *learned.Tolerances
}

// say tells those who wait how far it is.
func (g *run) say(format string, args ...any) {
	fmt.Fprintf(g.progress, "gate %5s  %s\n", g.clock.Since(g.began).Round(time.Second), fmt.Sprintf(format, args...))
}

// compare judges the head by the base. A report comes with an error too, once a check
// has begun.
func (g *run) compare(ctx context.Context, checks []judge.Check) (r *report.Report, err error) {
	o := g.options
	g.say("comparing with %s, seed %d; what is kept is in %s", o.base, o.seed, o.dir)
	both, err := trees.Open(ctx, o.root, o.base, o.head)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, both.Close(context.WithoutCancel(ctx))) }()
	p, err := g.build(ctx, both)
	if err != nil {
		return nil, err
	}
	trailers, err := both.Trailers(ctx, allowance.Trailer)
	if err != nil {
		return nil, err
	}
	r = &report.Report{Base: p.Base.Commit, Head: p.Head.Commit, Named: o.base, Seed: o.seed}
	r.Findings, err = judge.Judge(ctx, checks, p)
	allowed, notices := allowance.Parse(trailers)
	r.Notices = slices.Concat(notices, allowance.Apply(allowed, r.Findings))
	r.Took = g.clock.Since(g.began)
	return r, err
}

// build builds both trees.
func (g *run) build(ctx context.Context, both *trees.Trees) (p row.Pair, err error) {
	dir, err := filepath.Abs(g.options.dir)
	if err != nil {
		return p, fmt.Errorf("finding folder %s: %w", g.options.dir, err)
	}
	p.Bench = stage.Bench{Dir: dir, Seed: g.options.seed, Clock: g.clock, Say: g.say}
	g.say("building the base %.12s", both.BaseCommit)
	if p.Base, err = stage.Build(ctx, both.Base, filepath.Join(dir, "base")); err != nil {
		return p, fmt.Errorf("building the base: %w", err)
	}
	g.say("building the head in %s", both.Head)
	if p.Head, err = stage.Build(ctx, both.Head, filepath.Join(dir, "head")); err != nil {
		return p, fmt.Errorf("building the head: %w", err)
	}
	return p, nil
}

// tell prints and keeps the report. The error is what the program ends with.
func (g *run) tell(r *report.Report, output io.Writer) error {
	fmt.Fprint(output, r.Markdown())
	if err := r.Save(g.options.dir); err != nil {
		return program.Undone(err)
	}
	g.say("the report is in %s", filepath.Join(g.options.dir, "report.md"))
	var errs []error
	if regression := r.Regression(); regression != "" {
		errs = append(errs, fmt.Errorf("%w: %s\nonly what has failed: %s", errWorse, regression, r.Replay()))
	}
	if undone := r.Undone(); undone != "" {
		errs = append(errs, program.Undone(fmt.Errorf("%s\nonly what has failed: %s", undone, r.Replay())))
	}
	return errors.Join(errs...)
}

// learn compares the base with itself, again and again, and keeps how far times were
// apart.
func (g *run) learn(ctx context.Context, checks []judge.Check) (err error) {
	both, err := trees.Open(ctx, g.options.root, g.options.base, g.options.head)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, both.Close(context.WithoutCancel(ctx))) }()
	both.Head = both.Base
	p, err := g.build(ctx, both)
	if err != nil {
		return err
	}
	made, err := g.repeat(ctx, checks, p)
	if made == 0 {
		return err
	}
	// It is kept when it broke off, too: it took hours.
	machine := figures.ThisMachine()
	g.tolerances.Learn(fmt.Sprintf("%s, %d cores, %s", machine.System, machine.Cores, machine.Go), g.clock.Now().UTC().Format(time.DateOnly))
	path := filepath.Join(g.options.root, g.options.tolerance)
	g.say("what was learned by %d comparisons is in %s", made, path)
	return errors.Join(err, g.tolerances.Save(path))
}

// repeat compares as often as is to be learned from, and returns how often it has.
func (g *run) repeat(ctx context.Context, checks []judge.Check, p row.Pair) (made int, err error) {
	for made < g.options.learn {
		g.say("learning: comparison %d of %d", made+1, g.options.learn)
		found, err := judge.Judge(ctx, checks, p)
		if err != nil {
			return made, err
		}
		for _, f := range found {
			if f.Err != "" {
				return made, fmt.Errorf("comparing the base with itself: %s: %s", f.Check, f.Err)
			}
			// Of a time, this is what is learned here. A count should never be among them.
			for _, r := range slices.Concat(f.Is(row.Worse), f.Is(row.Unclear)) {
				g.say("learning: %s is %s, though both are the same: %s and %s: %s", r.ID, r.Verdict, r.Base, r.Head, r.Reason)
			}
		}
		made++
	}
	return made, nil
}

func namesOf(all []judge.Check) []string {
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// choose are the checks that are wanted, in our order; none named are all.
func choose(all []judge.Check, only []string) ([]judge.Check, error) {
	if len(only) == 0 {
		return all, nil
	}
	for _, name := range only {
		if !slices.Contains(namesOf(all), name) {
			return nil, fmt.Errorf("reading -only: there is no check %q: there are %s", name, strings.Join(namesOf(all), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c judge.Check) bool { return !slices.Contains(only, c.Name) }), nil
}
