package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/explore"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
)

// explored is a kind whose objects users may change.
type explored struct {
	explore.Explorer

	invariant.Kind
	prefix []scenario.Step // what precedes the creation of the sample
	object map[string]any  // the sample

	mu      sync.Mutex
	creates []string // the IDs of the plans about the creation of the sample
}

// exploredKinds returns the kinds for which the manifests have a schema and a scenario creates an
// object. It reports the others.
func exploredKinds(s *subject.Suite, output io.Writer) []*explored {
	var all []*explored
	for _, kind := range s.Contract.Kinds {
		x := &explored{Kind: kind}
		schema := x.find(s)
		switch {
		case x.object == nil:
			fmt.Fprintf(output, "%s: not explored: no scenario applies one with a spec, or the manifests do not define it\n",
				kind.Resource)
			continue
		case kind.Ready == "":
			fmt.Fprintf(output, "%s: not explored: the subject names no condition `ready`\n", kind.Resource)
			continue
		}
		x.Sample, _ = x.object["spec"].(map[string]any)
		x.Explorer.Kind, x.Changes = kind.String(), explore.Generate(*schema, x.Sample)
		all = append(all, x)
	}
	return all
}

// find takes the first object of the kind that a scenario applies, and returns the schema of its
// spec.
func (x *explored) find(s *subject.Suite) *apiextensionsv1.JSONSchemaProps {
	for _, d := range s.Plane.Definitions {
		if d.Spec.Group != x.Group || d.Spec.Names.Plural != x.Resource.Resource {
			continue
		}
		for _, one := range whole(s.Scenarios) {
			for i, step := range one.Steps {
				if step.Apply == nil || step.Apply["kind"] != d.Spec.Names.Kind || step.Apply["spec"] == nil {
					continue
				}
				for _, v := range d.Spec.Versions {
					if v.Schema != nil && step.Apply["apiVersion"] == d.Spec.Group+"/"+v.Name {
						spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
						x.prefix, x.object = one.Steps[:i], step.Apply
						return &spec
					}
				}
			}
		}
	}
	return nil
}

// exploration makes changes within a time budget.
type exploration struct {
	options  options
	promises invariant.Contract
	output   io.Writer
	clock    clock.PassiveClock

	mu       sync.Mutex
	findings int
	undone   []error
}

// exploreAll explores the kinds of a subject, and returns errFound if there are findings.
func exploreAll(ctx context.Context, o options, s *subject.Suite, output io.Writer) error {
	kinds := exploredKinds(s, output)
	jobs, err := o.explorationJobs(kinds)
	if err != nil {
		return err
	}
	fleet, err := run.StartFleet(ctx, run.Options{Subject: s.Subject, Random: rand.New(rand.NewPCG(o.seed, 0))}, o.workers)
	if err != nil {
		return err
	}
	e := &exploration{options: o, promises: s.Contract, output: output, clock: clock.RealClock{}}
	err = e.do(ctx, fleet.Each, kinds, jobs)
	for _, x := range kinds {
		fmt.Fprintf(output, "%s\n", x.Coverage())
	}
	if err := errors.Join(append(e.undone, err, fleet.Stop(ctx))...); err != nil {
		return err
	}
	if e.findings > 0 {
		return fmt.Errorf("%w: exploring led to %d findings", errFound, e.findings)
	}
	return nil
}

// explorationJob is one sequence of changes of one kind, with the seed that it was drawn with.
type explorationJob struct {
	kind     *explored
	sequence explore.Sequence
	seed     uint64
}

// explorationJobs returns the one sequence of the options, or those of the seed: one of each kind
// in turn.
func (o *options) explorationJobs(kinds []*explored) ([]explorationJob, error) {
	if o.change != "" {
		name, line, _ := strings.Cut(o.change, " ")
		for _, x := range kinds {
			if x.Explorer.Kind == name {
				s, err := explore.Parse(line, x.Changes)
				return []explorationJob{{x, s, o.seed}}, err
			}
		}
		return nil, fmt.Errorf("reading -change: %q is no kind that can be explored", name)
	}
	var each [][]explore.Sequence
	longest := 0
	for i, x := range kinds {
		each = append(each, explore.Sequences(x.Changes, o.seed))
		longest = max(longest, len(each[i]))
	}
	var jobs []explorationJob
	for n := range longest {
		for i, x := range kinds {
			if n < len(each[i]) {
				jobs = append(jobs, explorationJob{x, each[i][n], o.seed})
			}
		}
	}
	if len(jobs) == 0 {
		return nil, errors.New("exploring: no kind can be explored")
	}
	return jobs, nil
}

// runEach runs a function for 0 to n-1, as run.Fleet.Each does.
type runEach = func(ctx context.Context, n int, do func(context.Context, *run.Prover, int) error) error

// do runs the jobs, and then those of one seed after another until the time is up. Each seed has
// each change in other sequences. A sequence that the options name runs once.
func (e *exploration) do(ctx context.Context, each runEach, kinds []*explored, jobs []explorationJob) (err error) {
	until := e.clock.Now().Add(e.options.explore)
	for o := e.options; ; {
		if err := e.round(ctx, each, jobs, until); err != nil || o.change != "" || !e.clock.Now().Before(until) {
			return err
		}
		o.seed++
		if jobs, err = o.explorationJobs(kinds); err != nil {
			return err
		}
	}
}

// round runs the jobs until all are done or the time is up.
func (e *exploration) round(ctx context.Context, each runEach, jobs []explorationJob, until time.Time) error {
	return each(ctx, len(jobs), func(ctx context.Context, p *run.Prover, i int) error {
		began := e.clock.Now()
		if began.After(until) {
			return nil
		}
		j := jobs[i]
		on := &exploredSystem{explored: j.kind, prover: p, promises: e.promises, seed: seedOf(j.seed, j.sequence)}
		found, err := j.kind.Check(ctx, on, j.sequence)
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		e.report(j, found, err, e.clock.Since(began))
		return nil
	})
}

// report prints what a sequence led to.
func (e *exploration) report(j explorationJob, found []explore.Counterexample, err error, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	result := "held"
	switch {
	case errors.Is(err, explore.ErrNoFault):
		result = "void"
	case err != nil:
		result = "not judged"
		e.undone = append(e.undone, err)
	case len(found) > 0:
		result = "broken"
	}
	name := j.kind.Explorer.Kind
	fmt.Fprintf(e.output, "%-12s %s %s (%.1f s)\n", result, name, j.sequence, took.Seconds())
	if err != nil {
		fmt.Fprintf(e.output, "    %v\n", err)
	}
	for _, f := range found {
		e.findings++
		fmt.Fprintf(e.output, "    %s by %s (repeated: %t)\n", f.Oracle, f.Sequence, f.Repeated)
		for _, line := range f.Details {
			fmt.Fprintf(e.output, "        %s\n", line)
		}
		again := e.options
		again.seed = j.seed
		fmt.Fprintf(e.output, "    again: %s\n", again.replayChange(fmt.Sprintf("%s %s", name, f.Sequence)))
	}
}

// withSpec returns the sample with another spec.
func (x *explored) withSpec(spec map[string]any) map[string]any {
	object := runtime.DeepCopyJSON(x.object)
	object["spec"] = spec
	return object
}

// steps returns the steps that create the object with the first spec, change it to the others, and
// wait for rest after each.
func (x *explored) steps(specs []map[string]any) []scenario.Step {
	steps := slices.Clone(x.prefix)
	object := x.reference()
	for i, spec := range specs {
		step := scenario.Step{Name: fmt.Sprintf("spec %d", i), Refused: scenario.MayRefuse}
		if i == 0 {
			step.Apply = x.withSpec(spec)
		} else {
			step.Patch = &scenario.Patch{Object: object, Merge: map[string]any{"spec": explore.MergePatch(spec, specs[:i]...)}}
		}
		rest := &scenario.Quiesce{Until: []scenario.Wait{{Object: object, Condition: x.Ready}}}
		rest.For.Duration, rest.Within.Duration = restFor, readyWithin
		steps = append(steps, step, scenario.Step{Name: checkpoint(i), Quiesce: rest})
	}
	return steps
}

func checkpoint(i int) string { return fmt.Sprintf("rest %d", i) }
