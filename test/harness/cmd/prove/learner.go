// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/learn"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
)

// learner runs an operator to complete its description.
type learner struct {
	draft *learn.Draft
	dir   string // of the files of a description that is not complete yet
	kept  bool   // dir has files for the user
	// target is the folder in which the scenarios of a kind are written as soon as it is done.
	target string
	// suggested means that the user knows how to describe one kind alone.
	suggested bool
	random    *rand.Rand
	output    io.Writer
	// resources are all resources that can be watched.
	resources []history.Resource
	// errors are those of the operator's log that were printed, without numbers.
	errors map[string]bool
	// undone is why kinds are left without a scenario; nil if none is.
	undone error
}

// learn completes the draft: the Lease by one run of the operator, and then the rest by two clean
// runs of each scenario.
func (l *learner) learn(ctx context.Context) error {
	l.draft.Lease = history.Key{Resource: history.Leases, Name: "unknown", Namespace: "unknown"}
	if err := l.findLease(ctx); err != nil {
		return err
	}
	fmt.Fprintf(l.output, "the operator acquired the Lease %s/%s\n", l.draft.Lease.Namespace, l.draft.Lease.Name)
	histories, err := l.observe(ctx)
	if err != nil {
		return err
	}
	// What was learned before an interruption is kept.
	s, err := l.load(context.WithoutCancel(ctx), l.draft.Scenario)
	if err != nil {
		return err
	}
	l.draft.Require(s.Contract, histories)
	return nil
}

// load writes the incomplete description with these scenarios, and reads it as a subject.
func (l *learner) load(ctx context.Context, scenario func(*learn.DraftKind) ([]byte, error)) (*subject.Suite, error) {
	file := filepath.Join(l.dir, "subject.yaml")
	files := map[string][]byte{file: l.draft.Subject()}
	for i := range l.draft.Kinds {
		k := &l.draft.Kinds[i]
		if k.Problem != "" {
			continue
		}
		text, err := scenario(k)
		if err != nil {
			return nil, err
		}
		files[scenarioFile(l.dir, k.ScenarioName())] = text
	}
	if err := os.RemoveAll(filepath.Join(l.dir, "scenarios")); err != nil {
		return nil, err
	}
	if err := writeFiles(files); err != nil {
		return nil, err
	}
	return subject.Load(ctx, file, "")
}

// observe runs each scenario twice and learns from the histories. A kind gets no scenario if it
// cannot be run.
func (l *learner) observe(ctx context.Context) (histories [][]*history.History, err error) {
	s, err := l.load(ctx, l.draft.Observing)
	if err != nil {
		return nil, err
	}
	s.Contract.Watched = l.resources
	for _, r := range l.resources {
		s.Plane.AuditGroups = append(s.Plane.AuditGroups, r.Group)
	}
	slices.Sort(s.Plane.AuditGroups)
	s.Plane.AuditGroups = slices.Compact(s.Plane.AuditGroups)
	prover, err := run.Start(ctx, run.Options{Subject: s.Subject, Random: l.random, StopAtRefusal: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, noteNotEnded(l.output, prover.Stop(ctx))) }()
	histories = make([][]*history.History, len(l.draft.Kinds))
	var problems []error
	started := time.Now()
	for i := range l.draft.Kinds {
		k := &l.draft.Kinds[i]
		j := slices.IndexFunc(s.Scenarios, func(s scenario.Scenario) bool { return s.Name == k.ScenarioName() })
		fmt.Fprintf(l.output, "kind %d of %d, %s: %d clean runs to learn from\n", i+1, len(l.draft.Kinds),
			k.ScenarioName(), cleanRuns)
		began := time.Now()
		stop := l.accompany(ctx, prover.Logs)
		histories[i], err = l.learnKind(ctx, prover, k, s.Scenarios[j], s.Contract.Users)
		stop()
		if err != nil && ctx.Err() != nil {
			return histories, l.interrupted(i, err)
		}
		fmt.Fprintf(l.output, "%s took %s\n", k.ScenarioName(), time.Since(began).Round(time.Second))
		l.suggestKind(i, time.Since(started))
		if err == nil {
			// They are there whatever ends init.
			if _, err := writeScenarios(l.target, l.draft, k); err != nil {
				return nil, err
			}
			continue
		}
		k.Problem = err.Error()
		problems = append(problems, err)
		tried, undone := l.keep(k)
		if undone != nil {
			return nil, undone
		}
		fmt.Fprintf(l.output, "%s: it gets no scenario: %v\n    correct the sample, or name others with --samples; %s is what was tried\n",
			k.ScenarioName(), err, tried)
	}
	if len(problems) == len(l.draft.Kinds) {
		return nil, fmt.Errorf("no scenario could be run: %w", errors.Join(problems...))
	}
	l.draft.Strays, err = prover.Strays()
	return histories, err
}

// suggestKind prints once, after a minute, how to describe one kind alone. n kinds are done.
func (l *learner) suggestKind(n int, after time.Duration) {
	left := l.draft.Kinds[n+1:]
	if l.suggested || after < time.Minute || len(left) == 0 {
		return
	}
	l.suggested = true
	fmt.Fprintf(l.output, "%d kinds are left; --kind=%s describes one alone, and an interrupt writes what is done\n", len(left),
		left[0].Objects[left[0].Main].GetKind())
}

// keep writes the scenario of a kind that could not be run into a folder that stays, and returns the
// file's path.
func (l *learner) keep(k *learn.DraftKind) (string, error) {
	l.kept = true
	text, err := l.draft.Observing(k)
	if err != nil {
		return "", err
	}
	file := filepath.Join(l.dir, "tried", k.ScenarioName()+".yaml")
	return file, writeFiles(map[string][]byte{file: text})
}

// errIgnored means that a scenario of the kind would show nothing.
var errIgnored = errors.New("the operator wrote nothing for the sample: no child, no status, no event. It may refer to what is not " +
	"there, be in a namespace or have labels that the operator does not select, or its controller is off")

// learnKind runs a kind's scenario twice, learns from the runs, and grows its object.
func (l *learner) learnKind(ctx context.Context, prover *run.Prover, k *learn.DraftKind, s scenario.Scenario,
	users []string) ([]*history.History, error) {
	reference, err := prover.Reference(ctx, s, cleanRuns)
	err = refusal(err)
	if err == nil {
		err = l.draft.Learn(k, users, reference.Histories...)
	}
	if err == nil && k.Ignored {
		fmt.Fprint(l.output, (&report.Run{Logs: reference.Outcomes[0].Logs}).LogTails())
		err = errIgnored
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(l.output, "%s: %s\n", k.ScenarioName(), learned(k))
	if !k.Unfinished && !k.Fails {
		err = l.withoutChange(ctx, k, l.grow(ctx, prover, k, users))
	}
	return reference.Histories, err
}

// learned is what the clean runs of a kind have shown.
func learned(k *learn.DraftKind) string {
	var made []string
	for _, c := range k.Children {
		made = append(made, c.String())
	}
	slices.Sort(made)
	text := fmt.Sprintf("it waits for %q, and the operator makes %s", k.Until,
		cmp.Or(strings.Join(slices.Compact(made), ", "), "nothing that names the object"))
	switch {
	case k.Pause > 0:
		text += fmt.Sprintf("; it pauses for %s", k.Pause.Round(time.Second))
	case k.Unfinished:
		text += "; " + k.Guesses[len(k.Guesses)-1]
	}
	return text
}

// withoutChange returns the error of growing a kind's object. An interruption is none: the kind's life is known, and it
// is noted that its change is not.
func (l *learner) withoutChange(ctx context.Context, k *learn.DraftKind, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	k.Grown, k.Added = nil, nil
	k.Guesses = append(k.Guesses, "prove init was interrupted before it had a scenario with a change")
	l.undone = fmt.Errorf("it was interrupted: %s has no scenario with a change", k.Word)
	return nil
}

// interrupted leaves the kinds from n on without a scenario, and returns nil if there are others.
// The error names what was tried before.
func (l *learner) interrupted(n int, err error) error {
	worked := 0
	for _, k := range l.draft.Kinds[:n] {
		if k.Problem == "" {
			worked++
		} else {
			err = fmt.Errorf("%w; %s: %s", err, k.ScenarioName(), k.Problem)
		}
	}
	if worked == 0 {
		return err
	}
	l.undone = fmt.Errorf("it was interrupted: %d of %d kinds are described", worked, len(l.draft.Kinds))
	for i := range l.draft.Kinds[n:] {
		l.draft.Kinds[n+i].Problem = "prove init was interrupted before it"
	}
	return nil
}

// refusal returns an error with what the API server refused, in full, if err is about that.
// Nothing can be learned from an object that does not exist.
func refusal(err error) error {
	if refused := (*run.RefusedError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("the API server refused the sample: %w", refused)
	}
	return err
}

// chosenKinds are the definitions of the kinds that are named, or all of them.
func chosenKinds(all []*apiextensionsv1.CustomResourceDefinition, kinds []string) (
	[]*apiextensionsv1.CustomResourceDefinition, error) {
	some, missing, known := chosen(all, kinds,
		func(d *apiextensionsv1.CustomResourceDefinition) string { return d.Spec.Names.Kind })
	if len(missing) > 0 {
		return nil, fmt.Errorf("--kind=%s: the manifests define %s", strings.Join(missing, ", "), strings.Join(known, ", "))
	}
	return some, nil
}
