// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
)

// cleanRuns is the number of runs from which a scenario is learned: two show incidental differences.
const cleanRuns = 2

// heartbeat is the period of the lines that show that runs go on.
const heartbeat = 30 * time.Second

// learner runs an operator to complete its description.
type learner struct {
	draft  *Draft
	dir    string // of the files of a description that is not complete yet
	random *rand.Rand
	output io.Writer
	// resources are all resources that can be watched.
	resources []history.Resource
}

// learn completes the draft: the Lease by one run of the operator, and then the rest by two clean
// runs of each scenario. It writes the description after each kind.
func (l *learner) learn(ctx context.Context) error {
	l.draft.Lease = history.Key{Resource: history.Leases, Name: "unknown", Namespace: "unknown"}
	if err := l.findLease(ctx); err != nil {
		return err
	}
	fmt.Fprintf(l.output, "the operator acquired the Lease %s/%s\n", l.draft.Lease.Namespace, l.draft.Lease.Name)
	return l.observe(ctx)
}

// load writes the incomplete description, and reads it as a subject.
func (l *learner) load(ctx context.Context) (*subject.Suite, error) {
	if err := os.RemoveAll(filepath.Join(l.dir, "scenarios")); err != nil {
		return nil, err
	}
	_, err := l.draft.write(l.dir, func(k *DraftKind) ([]DraftFile, error) {
		text, err := l.draft.Observing(k)
		return []DraftFile{{k.ScenarioName(), text}}, err
	})
	if err != nil {
		return nil, err
	}
	return subject.Load(ctx, filepath.Join(l.dir, "subject.yaml"), "")
}

// notRun is the problem of the kinds whose turn has not come.
const notRun = "prove init ended before it was run"

// observe runs each scenario twice and learns from the histories. A kind gets no scenario if it
// cannot be run.
func (l *learner) observe(ctx context.Context) (err error) {
	s, err := l.load(ctx)
	if err != nil {
		return err
	}
	s.Contract.Watched = l.resources
	for _, r := range l.resources {
		s.Plane.AuditGroups = append(s.Plane.AuditGroups, r.Group)
	}
	slices.Sort(s.Plane.AuditGroups)
	s.Plane.AuditGroups = slices.Compact(s.Plane.AuditGroups)
	prover, err := run.Start(ctx, run.Options{Subject: s.Subject, Random: l.random, StopAtRefusal: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, NoteNotEnded(l.output, prover.Stop(ctx))) }()
	var problems []error
	for i := range l.draft.Kinds {
		l.draft.Kinds[i].Problem = notRun
	}
	for i := range l.draft.Kinds {
		k := &l.draft.Kinds[i]
		k.Problem = ""
		fmt.Fprintf(l.output, "kind %d of %d, %s: %d clean runs to learn from\n", i+1, len(l.draft.Kinds),
			k.ScenarioName(), cleanRuns)
		began := time.Now()
		histories, err := l.learnKind(ctx, prover, k, s.Contract.Users)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			k.Problem = err.Error()
			problems = append(problems, err)
			fmt.Fprintf(l.output, "%s: it gets no scenario: %v\n%s", k.ScenarioName(), err, l.logs(prover))
		} else if err := l.require(ctx, prover, k, histories); err != nil {
			return err
		}
		fmt.Fprintf(l.output, "%s took %s\n", k.ScenarioName(), time.Since(began).Round(time.Second))
		if len(problems) > i {
			continue // there is no scenario yet
		}
		if err := l.draft.save(l.output); err != nil {
			return err
		}
	}
	if len(problems) == len(l.draft.Kinds) {
		return fmt.Errorf("no scenario could be run: %w", errors.Join(problems...))
	}
	return nil
}

// require completes what all runs so far have shown, and what the kind's scenario requires.
func (l *learner) require(ctx context.Context, prover *run.Prover, k *DraftKind, histories []*history.History) error {
	s, err := l.load(ctx)
	if err != nil {
		return err
	}
	k.Require(s.Contract, histories)
	l.draft.Strays, err = prover.Strays()
	return err
}

// notServed matches the error of a client about a kind without a definition.
var notServed = regexp.MustCompile(`no matches for kind \\?"([A-Za-z]+)\\?" in (?:version|group) \\?"([a-z0-9./-]+)`)

// logs is the end of the replicas' logs, which often show what a sample or the installation lacks.
func (l *learner) logs(prover *run.Prover) string {
	all, err := prover.Logs()
	if err != nil {
		return fmt.Sprintf("    the logs of the operator cannot be read: %v\n", err)
	}
	return logTails(all)
}

func logTails(logs map[string][]byte) string {
	text := (&report.Run{Logs: logs}).LogTails()
	if kind := notServed.FindStringSubmatch(text); kind != nil {
		text += fmt.Sprintf("    the API server does not serve %s of %s: set --crds to the file or directory of its "+
			"CustomResourceDefinition\n", kind[1], kind[2])
	}
	return text
}

// errIgnored means that a scenario of the kind would show nothing.
var errIgnored = errors.New("the operator wrote nothing for the sample: no child, no status. It may refer to what is not " +
	"there, be in a namespace or have labels that the operator does not select, or its controller is off")

// attempt is what two runs with a form of the samples have shown.
type attempt struct {
	kind      DraftKind
	histories []*history.History
	err       error
}

// fruit orders attempts: an object that the operator completes teaches most, and one that does not exist nothing.
func (a attempt) fruit() int {
	switch {
	case a.err != nil && !errors.Is(a.err, errIgnored):
		return 0
	case a.err != nil:
		return 1
	case a.kind.Fails:
		return 2
	}
	return 3
}

// choose tries the forms until the operator completes the object, and returns the first of the best attempts.
func choose(k DraftKind, try func(k DraftKind, why string) attempt) attempt {
	var best attempt
	for i, f := range k.forms() {
		other, why := k, ""
		if i > 0 {
			why = fmt.Sprintf("%s, because otherwise %s", f, best.says())
			other.Guesses = []string{why}
			if other.use(f) != nil {
				continue
			}
		}
		if a := try(other, why); i == 0 || a.fruit() > best.fruit() {
			best = a
		}
		if best.err == nil && !best.kind.Fails || !best.depends() {
			break
		}
	}
	return best
}

// depends reports whether another form of the samples may show more. It has the same fields, so one that the schema
// does not have is refused again.
func (a attempt) depends() bool {
	refused := (*run.RefusedError)(nil)
	return a.err == nil || errors.Is(a.err, errIgnored) ||
		errors.As(a.err, &refused) && !strings.Contains(refused.Message, "not declared in schema")
}

// says is why another form is tried.
func (a attempt) says() string {
	refused := (*run.RefusedError)(nil)
	switch {
	case errors.As(a.err, &refused):
		return "the API server answers: " + strings.Join(strings.Fields(refused.Message), " ")
	case a.err != nil:
		return "the operator writes nothing"
	}
	return "the status reports no success"
}

// learnKind learns from runs of a kind's scenario, and grows its object.
func (l *learner) learnKind(ctx context.Context, prover *run.Prover, k *DraftKind,
	users []string) ([]*history.History, error) {
	best := choose(*k, func(k DraftKind, why string) (a attempt) {
		if why != "" {
			fmt.Fprintf(l.output, "%s: once more: %s\n", k.ScenarioName(), why)
		}
		a.histories, a.err = l.observeKind(ctx, prover, &k, users)
		a.kind = k
		return a
	})
	*k = best.kind
	if best.err != nil {
		return nil, best.err
	}
	fmt.Fprintf(l.output, "%s: it waits for %q\n", k.ScenarioName(), k.Until)
	if k.Unfinished || k.Fails {
		return best.histories, nil
	}
	return best.histories, l.grow(ctx, prover, k, users)
}

// reference runs a scenario without faults, and prints how long that takes.
func (l *learner) reference(ctx context.Context, prover *run.Prover, s scenario.Scenario,
	runs int) (*run.Reference, error) {
	defer program.Progress(l.output, heartbeat, s.Name+": it runs")()
	return prover.Reference(ctx, s, runs)
}

// observeKind runs a kind's scenario twice, and learns from the runs.
func (l *learner) observeKind(ctx context.Context, prover *run.Prover, k *DraftKind,
	users []string) ([]*history.History, error) {
	text, err := l.draft.Observing(k)
	if err != nil {
		return nil, err
	}
	s, err := scenario.Parse(text)
	if err != nil {
		return nil, err
	}
	reference, err := l.reference(ctx, prover, s, cleanRuns)
	if refused := (*run.RefusedError)(nil); errors.As(err, &refused) {
		return nil, fmt.Errorf("the API server refused the sample: %w", refused)
	}
	if err != nil {
		return nil, err
	}
	if err := l.draft.Learn(k, users, reference.Histories...); err != nil {
		return nil, err
	}
	if k.Ignored {
		return nil, errIgnored
	}
	return reference.Histories, nil
}
