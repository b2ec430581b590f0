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
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/learn"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
)

const (
	// leaseTimeout bounds the wait for the operator's Lease.
	leaseTimeout  = time.Minute
	leaseInterval = 200 * time.Millisecond
)

// learner runs an operator to complete its description.
type learner struct {
	draft *learn.Draft
	dir   string // of the files of a description that is not complete yet
	kept  bool   // dir has files for the user
	// target is the folder in which the scenarios of a kind are written as soon as it is done. Empty:
	// they are not.
	target string
	// suggested means that the user knows how to describe one kind alone.
	suggested bool
	random    *rand.Rand
	output    io.Writer
	// resources are all resources that can be watched.
	resources []history.Resource
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
	fmt.Fprintf(l.output, "the operator took the Lease %s/%s\n", l.draft.Lease.Namespace, l.draft.Lease.Name)
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
	files := map[string][]byte{"subject.yaml": l.draft.Subject()}
	for i := range l.draft.Kinds {
		k := &l.draft.Kinds[i]
		if k.Problem != "" {
			continue
		}
		text, err := scenario(k)
		if err != nil {
			return nil, err
		}
		files[filepath.Join("scenarios", k.ScenarioName()+".yaml")] = text
	}
	if err := os.RemoveAll(filepath.Join(l.dir, "scenarios")); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(l.dir, "scenarios"), 0o750); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(l.dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	return subject.Load(ctx, filepath.Join(l.dir, "subject.yaml"), "")
}

// findLease runs one replica on a control plane of its own until it holds a Lease.
func (l *learner) findLease(ctx context.Context) (err error) {
	s, err := l.load(ctx, l.draft.Observing)
	if err != nil {
		return err
	}
	lasting := context.WithoutCancel(ctx)
	plane, err := env.Start(lasting, s.Plane)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	installation, err := plane.Install(lasting, s.Operator)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, noteNotEnded(l.output, installation.Stop(lasting))) }()
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	before, err := leases(ctx, c)
	if err != nil {
		return err
	}
	replica, err := installation.Start(ctx)
	if err != nil {
		return err
	}
	own := &programLog{path: replica.LogPath()}
	if l.draft.Leases, err = waitForLease(ctx, c, before, l.restarting(replica, own)); err != nil {
		if errors.Is(err, errProgramEnded) {
			return fmt.Errorf("%w; its log shows why: give it what it needs with --args, --env or --values", err)
		}
		return fmt.Errorf("%w; the operator has to elect a leader: %s. The end of its log:\n%s", err,
			electionAdvice(ctx, c, installation.Shipped()), own.next())
	}
	l.draft.Lease = l.draft.Leases[0]
	namespace := installation.Shipped().Namespace
	if i := slices.IndexFunc(l.draft.Leases, func(k history.Key) bool { return k.Namespace == namespace }); i >= 0 {
		l.draft.Lease = l.draft.Leases[i]
	}
	l.resources, err = watchable(plane)
	return err
}

// noteNotEnded prints that the program did not end at SIGTERM, which is a finding and keeps nothing
// from being learned, and returns the other errors of a stop.
func noteNotEnded(output io.Writer, err error) error {
	notEnded, others := env.SplitNotEnded(err)
	if notEnded != nil {
		fmt.Fprintf(output, "finding: %v\n", notEnded)
	}
	return others
}

// maxRestarts bounds how often a program that ends is started again while its Lease is awaited.
const maxRestarts = 5

// errProgramEnded means that a program ended each time that it was started.
var errProgramEnded = errors.New("the program ended")

// restarting returns a function that starts a program again if it has ended, as a kubelet does, and
// reports whether it runs then. A program may end until a Secret or a webhook is there.
func (l *learner) restarting(replica restartable, own *programLog) func() bool {
	restarts := 0
	return func() bool {
		if replica.Running() {
			return true
		}
		fmt.Fprintf(l.output, "the program ended. The end of its log:\n%s\n", own.next())
		if restarts == maxRestarts {
			return false
		}
		restarts++
		fmt.Fprintf(l.output, "it is started again, %d of %d times\n", restarts, maxRestarts)
		return replica.Restart() == nil
	}
}

// restartable is a replica.
type restartable interface {
	Running() bool
	Restart() error
}

// waitForLease returns the Leases that the operator has taken while it ran.
func waitForLease(ctx context.Context, c client.Client, before []history.Key,
	running func() bool) (taken []history.Key, err error) {
	err = wait.PollUntilContextTimeout(ctx, leaseInterval, leaseTimeout, true, func(ctx context.Context) (bool, error) {
		now, err := leases(ctx, c)
		taken = slices.DeleteFunc(now, func(k history.Key) bool { return slices.Contains(before, k) })
		if err == nil && len(taken) == 0 && !running() {
			return false, errProgramEnded
		}
		return len(taken) > 0, err
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("waiting for a Lease of the operator: it took none within %s", leaseTimeout)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for a Lease of the operator: %w", err)
	}
	return taken, nil
}

// electionAdvice returns what to do about an operator that took no Lease. One that may not create
// Leases beside its Deployment probably elects no leader.
func electionAdvice(ctx context.Context, c client.Client, shipped *appsv1.Deployment) string {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   serviceaccount.MakeUsername(shipped.Namespace, shipped.Spec.Template.Spec.ServiceAccountName),
		Groups: append(serviceaccount.MakeGroupNames(shipped.Namespace), user.AllAuthenticated),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: history.Leases.Group, Resource: history.Leases.Resource, Namespace: shipped.Namespace,
		},
	}}
	advice := "see whether it needs a flag, and whether it takes its namespace from a flag or from POD_NAMESPACE"
	if err := c.Create(ctx, review); err == nil && !review.Status.Allowed {
		advice += fmt.Sprintf("; its ServiceAccount may not create Leases in namespace %s, and an operator without leader "+
			"election cannot be judged", shipped.Namespace)
	}
	return advice
}

// leases are all Leases with a holder, other than those of the API server itself.
func leases(ctx context.Context, c client.Client) ([]history.Key, error) {
	var list coordinationv1.LeaseList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing Leases: %w", err)
	}
	var all []history.Key
	for _, o := range list.Items {
		if ptr.Deref(o.Spec.HolderIdentity, "") != "" && !strings.HasPrefix(o.Name, "apiserver-") {
			all = append(all, history.Key{Resource: history.Leases, Namespace: o.Namespace, Name: o.Name})
		}
	}
	return all, nil
}

// unwatched are resources with many objects, or with a successor in Kubernetes.
var unwatched = []string{"events", "endpoints"}

// watchable are all resources that can be watched and created, but Leases and those above.
func watchable(plane *env.ControlPlane) ([]history.Resource, error) {
	c, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	lists, err := c.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("discovering the resources: %w", err)
	}
	var all []history.Resource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discovering the resources: %w", err)
		}
		for _, r := range list.APIResources {
			found := history.Resource{Group: version.Group, Resource: r.Name}
			if slices.Contains(r.Verbs, "watch") && slices.Contains(r.Verbs, "create") && found != history.Leases &&
				!slices.Contains(unwatched, r.Name) {
				all = append(all, found)
			}
		}
	}
	return all, nil
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
		histories[i], err = l.learnKind(ctx, prover, k, s.Scenarios[j], s.Contract.Users)
		if err != nil && ctx.Err() != nil {
			return histories, l.interrupted(i, err)
		}
		fmt.Fprintf(l.output, "%s took %s\n", k.ScenarioName(), time.Since(began).Round(time.Second))
		l.suggestKind(i, time.Since(started))
		if err == nil {
			if err := l.write(k); err != nil {
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

// write writes the scenarios of a kind that is done, so that they are there whatever ends init.
func (l *learner) write(k *learn.DraftKind) error {
	if l.target == "" {
		return nil
	}
	scenarios, err := l.draft.Scenarios(k)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(l.target, "scenarios"), 0o750); err != nil {
		return fmt.Errorf("writing the scenarios: %w", err)
	}
	for _, s := range scenarios {
		if err := os.WriteFile(scenarioFile(l.target, s.Name), s.Text, 0o600); err != nil {
			return fmt.Errorf("writing the scenarios: %w", err)
		}
	}
	return nil
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
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return "", fmt.Errorf("keeping a scenario: %w", err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("keeping a scenario: %w", err)
	}
	return file, nil
}

// learnKind runs a kind's scenario twice, learns from the runs, and grows its object.
func (l *learner) learnKind(ctx context.Context, prover *run.Prover, k *learn.DraftKind, s scenario.Scenario,
	users []string) ([]*history.History, error) {
	reference, err := prover.Reference(ctx, s, cleanRuns)
	err = refusal(err)
	if err == nil {
		err = l.draft.Learn(k, users, reference.Histories...)
	}
	if err == nil && k.Ignored {
		fmt.Fprintf(l.output, "%s: the operator wrote nothing for the sample: no child, no status, no event. It may refer to what is not "+
			"there, be in a namespace or have labels that the operator does not select, or its controller is off.\n%s",
			k.ScenarioName(), (&report.Run{Logs: reference.Outcomes[0].Logs}).LogTails())
	}
	if err == nil {
		err = l.grow(ctx, prover, k, users)
	}
	if err != nil {
		return nil, err
	}
	return reference.Histories, nil
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
	if len(kinds) == 0 {
		return all, nil
	}
	var chosen []*apiextensionsv1.CustomResourceDefinition
	var there []string
	missing := slices.Clone(kinds)
	for _, d := range all {
		there = append(there, d.Spec.Names.Kind)
		if slices.Contains(kinds, d.Spec.Names.Kind) {
			chosen = append(chosen, d)
			missing = slices.DeleteFunc(missing, func(kind string) bool { return kind == d.Spec.Names.Kind })
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("--kind=%s: the manifests define %s", strings.Join(missing, ", "), strings.Join(there, ", "))
	}
	return chosen, nil
}
