package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// routeInterval is the period of the forwarder's readiness probes.
const routeInterval = 100 * time.Millisecond

// InstallOptions is an operator as it ships: its manifests and its program.
type InstallOptions struct {
	// Manifests is the kustomize folder, the YAML file, the folder of YAML files or the Helm
	// chart of the whole installation. Namespace, ServiceAccount, labels, arguments and
	// environment of the replicas are the Deployment's. A variable that cannot be provided is an
	// error, unless Env defines it.
	Manifests string
	// Chart configures the rendering of a chart.
	Chart Chart
	// Deployment is the name of the one whose replicas run Binary. Empty: there is only one.
	Deployment string
	// Companions are the programs of other Deployments, by their names. A Deployment without a
	// program does not run.
	Companions map[string]Companion
	// Report receives a text about each companion that ends by itself. It may be called from
	// several goroutines. Nil: there are no reports.
	Report func(string)
	// Binary is the program that a replica runs.
	Binary string
	// Args returns arguments to follow those that the Deployment ships with, for
	// what a machine shared by several replicas makes necessary: with most
	// flag packages the last one of a flag counts. Nil: none.
	Args func(ReplicaPorts) []string
	// Env follows the Deployment's environment; see ReplicaOptions.
	Env []string
	// Connect changes how each replica reaches the API server; see ReplicaOptions.
	Connect func(*rest.Config)
	// Isolated runs each replica like a Pod, if CheckIsolation returns nil: see Isolation.
	Isolated bool
}

// Installation is an installed operator with its replicas. Two things stand in
// for what a control plane without nodes does not have: processes for the
// Pods of Deployments, and Forwarders for the Services that select them.
type Installation struct {
	cp         *ControlPlane
	subject    *workload
	companions []*companion
	idle       []appsv1.Deployment // those without a program
	objects    int
	webhooks   []string // the paths of those that are shipped, and served by the subject

	// unsigned are the objects with webhooks that had no CA when they were last read. A companion
	// injects it.
	unsigned []*unstructured.Unstructured
	injector *caInjector // nil if the harness issues no certificate

	cancel  context.CancelFunc // ends the supervision of companions
	running sync.WaitGroup

	mu       sync.Mutex
	replicas []*Replica
}

// Install applies all that the subject ships but its Deployments, with the webhooks routed to the
// replicas that are ready, and begins to start the companions. It starts no replica of the
// subject. The Installation has to be stopped before the control plane, which must not be an
// existing cluster.
func (c *ControlPlane) Install(ctx context.Context, s InstallOptions) (*Installation, error) {
	if c.egress == nil {
		return nil, fmt.Errorf("installing the operator: a cluster that exists cannot call the webhooks of processes: unset %s",
			existingVariable)
	}
	objects, _, err := s.Render(ctx, c.assets)
	if err != nil {
		return nil, fmt.Errorf("installing the operator: %w", err)
	}
	i, err := c.newInstallation(ctx, s, objects)
	if err != nil {
		return nil, fmt.Errorf("installing %s: %w", s.Manifests, err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	objects, note, err := withoutUndefined(objects, c.client.RESTMapper())
	if note != "" {
		s.report(note)
	}
	if err == nil {
		err = i.routeWebhooks(objects)
	}
	if err == nil {
		err = c.Apply(ctx, objects...)
	}
	if err == nil {
		i.injector, err = c.startInjector(ctx, objects)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("installing %s: %w", s.Manifests, err), i.Stop(ctx))
	}
	i.objects = len(objects)
	i.unsigned = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return !lacksAuthority(o) })
	i.startCompanions(ctx)
	return i, nil
}

// newInstallation finds the Deployments and their programs.
func (c *ControlPlane) newInstallation(ctx context.Context, s InstallOptions,
	objects []*unstructured.Unstructured) (*Installation, error) {
	shipped, err := TheDeployment(objects, s.Deployment)
	if err != nil {
		return nil, err
	}
	i := &Installation{cp: c, subject: &workload{
		cp: c, shipped: shipped, program: Companion{Binary: s.Binary, Args: s.Args, Env: s.Env}, isolated: s.Isolated,
		connect: s.Connect,
	}}
	all, err := Deployments(objects)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		program, runs := s.Companions[d.Name]
		switch {
		case d.Name == shipped.Name:
		case runs:
			w := &workload{cp: c, shipped: d, program: program, isolated: s.Isolated}
			i.companions = append(i.companions, &companion{workload: w, report: s.report})
		default:
			i.idle = append(i.idle, d)
		}
	}
	for _, w := range i.workloads() {
		if err := w.variables().check(); err != nil {
			return nil, fmt.Errorf("checking Deployment %s: %w", w.shipped.Name, err)
		}
	}
	return i, i.shareServices(ctx, objects)
}

func (s InstallOptions) report(text string) {
	if s.Report != nil {
		s.Report(text)
	}
}

// workloads are the Deployments that run, the subject's first.
func (i *Installation) workloads() []*workload {
	all := []*workload{i.subject}
	for _, c := range i.companions {
		all = append(all, c.workload)
	}
	return all
}

// startCompanions begins to start the companions, which run until Stop.
func (i *Installation) startCompanions(ctx context.Context) {
	ctx, i.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, c := range i.companions {
		i.running.Go(func() { c.run(ctx) })
	}
}

// CompanionsReady returns nil if all companions are ready and all shipped webhooks have once had a
// CA. Its error has the ends of the logs of those that are not ready.
func (i *Installation) CompanionsReady(ctx context.Context) error {
	var errs []error
	for _, c := range i.companions {
		errs = append(errs, c.ready(ctx))
	}
	if len(i.companions) > 0 {
		errs = append(errs, i.checkAuthorities(ctx))
	}
	return errors.Join(errs...)
}

// checkAuthorities returns an error that names the webhooks that a companion has to give a CA.
func (i *Installation) checkAuthorities(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var errs []error
	i.unsigned = slices.DeleteFunc(i.unsigned, func(o *unstructured.Unstructured) bool {
		now := o.DeepCopy()
		if err := i.cp.client.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
			errs = append(errs, fmt.Errorf("reading %s %s: %w", o.GetKind(), o.GetName(), err))
			return false
		}
		if lacksAuthority(now) {
			errs = append(errs, fmt.Errorf("the webhooks of %s %s have no CA: no companion has set caBundle", o.GetKind(),
				o.GetName()))
			return false
		}
		return true
	})
	return errors.Join(errs...)
}

// IsCompanion reports whether a Pod is a companion's.
func (i *Installation) IsCompanion(pod string) bool {
	return slices.ContainsFunc(i.companions, func(c *companion) bool { return c.podName(0) == pod })
}

// Shipped is the Deployment that the replicas stand in for.
func (i *Installation) Shipped() *appsv1.Deployment { return i.subject.shipped.DeepCopy() }

// Objects is how many objects were applied.
func (i *Installation) Objects() int { return i.objects }

// Start starts one more replica, under the Pod name <deployment>-<n>, and routes
// the webhooks to it as soon as it is ready. It does not wait for that. What it
// has different from the others, such as another program, is changed last.
func (i *Installation) Start(ctx context.Context, change ...func(*ReplicaOptions)) (*Replica, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	o := i.subject.options(len(i.replicas))
	for _, f := range change {
		f(&o)
	}
	r, err := StartReplica(ctx, i.cp, o)
	if err != nil {
		return nil, err
	}
	i.replicas = append(i.replicas, r)
	i.subject.router.add(ctx, r.backend)
	return r, nil
}

// HasWebhooks reports whether the subject serves webhooks that ship.
func (i *Installation) HasWebhooks() bool { return len(i.webhooks) > 0 }

// WebhookPaths returns the paths of the webhooks that the subject serves, each once.
func (i *Installation) WebhookPaths() []string { return i.webhooks }

// Replicas returns all replicas of the subject in the order they were started, also those that
// have ended.
func (i *Installation) Replicas() []*Replica {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.replicas)
}

// Stop terminates all replicas concurrently, as the deletion of their Deployment would, then the
// companions, and then ends the routing. Applied objects stay.
func (i *Installation) Stop(ctx context.Context) error {
	replicas := i.Replicas()
	errs := make([]error, len(replicas)+len(i.companions))
	var all sync.WaitGroup
	for n, r := range replicas {
		if r.Running() {
			all.Go(func() { _, errs[n] = r.Stop(ctx) })
		}
	}
	all.Wait()
	for n, r := range replicas {
		errs[n] = errors.Join(errs[n], r.Close())
	}
	if i.cancel != nil {
		i.cancel()
	}
	i.running.Wait()
	i.injector.stop()
	for n, c := range i.companions {
		all.Go(func() { errs[len(replicas)+n] = c.stop(ctx) })
	}
	all.Wait()
	i.stopRouting()
	return errors.Join(errs...)
}
