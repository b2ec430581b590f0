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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// routeInterval is the period of the forwarder's readiness probes.
const routeInterval = 100 * time.Millisecond

// Subject is an operator as it ships: its manifests and its program.
type Subject struct {
	// Manifests is the kustomize folder, the YAML file, the folder of YAML files or the Helm
	// chart of the whole installation, with one Deployment in it. Namespace, ServiceAccount,
	// labels, arguments and environment of the replicas are the Deployment's. A variable that
	// cannot be provided is an error, unless Env defines it.
	Manifests string
	// Chart configures the rendering of a chart.
	Chart Chart
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

// Installation is an installed Subject with its replicas. Two things stand in
// for what a control plane without nodes does not have: processes for the
// Deployment's Pods, and a Forwarder for the Services that select them.
type Installation struct {
	cp       *ControlPlane
	subject  Subject
	shipped  appsv1.Deployment
	objects  int
	webhooks bool // are shipped
	router   router

	mu       sync.Mutex
	replicas []*Replica
}

// Install applies all that the subject ships but its Deployment, with its
// webhooks routed to the replicas that are ready. It starts none. The
// Installation has to be stopped before the control plane.
func (c *ControlPlane) Install(ctx context.Context, s Subject) (*Installation, error) {
	objects, _, err := s.Render(ctx, c.assets)
	if err != nil {
		return nil, fmt.Errorf("installing the operator: %w", err)
	}
	i := &Installation{cp: c, subject: s}
	if i.shipped, err = TheDeployment(objects); err != nil {
		return nil, fmt.Errorf("installing %s: %w", s.Manifests, err)
	}
	if err := i.variables().check(); err != nil {
		return nil, fmt.Errorf("installing %s: %w", s.Manifests, err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	if objects, err = i.routeWebhooks(ctx, objects); err == nil {
		err = c.Apply(ctx, objects...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("installing %s: %w", s.Manifests, err), i.Stop(ctx))
	}
	i.objects = len(objects)
	return i, nil
}

// Shipped is the Deployment that the replicas stand in for.
func (i *Installation) Shipped() *appsv1.Deployment { return i.shipped.DeepCopy() }

// Objects is how many objects were applied.
func (i *Installation) Objects() int { return i.objects }

// Start starts one more replica, under the Pod name <deployment>-<n>, and routes
// the webhooks to it as soon as it is ready. It does not wait for that. What it
// has different from the others, such as another program, is changed last.
func (i *Installation) Start(ctx context.Context, change ...func(*ReplicaOptions)) (*Replica, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	o := i.options(len(i.replicas))
	for _, f := range change {
		f(&o)
	}
	r, err := StartReplica(ctx, i.cp, o)
	if err != nil {
		return nil, err
	}
	i.replicas = append(i.replicas, r)
	i.router.add(ctx, r.WebhookBackend())
	return r, nil
}

// options describe the n-th Pod of the Deployment.
func (i *Installation) options(n int) ReplicaOptions {
	pod := i.shipped.Spec.Template
	name := fmt.Sprintf("%s-%d", i.shipped.Name, n)
	variables := i.variables()
	var isolation *Isolation
	if i.subject.Isolated && CheckIsolation() == nil {
		isolation = isolationOf(pod)
	}
	return ReplicaOptions{
		Name:           name,
		Namespace:      i.shipped.Namespace,
		ServiceAccount: pod.Spec.ServiceAccountName,
		PodLabels:      pod.Labels,
		PodAnnotations: pod.Annotations,
		Binary:         i.subject.Binary,
		Container:      pod.Spec.Containers[0].Name,
		PodEnv: func(ctx context.Context, uid types.UID) ([]string, error) {
			pod := types.NamespacedName{Namespace: i.shipped.Namespace, Name: name}
			return variables.values(ctx, i.cp.client, pod, uid)
		},
		Connect:   i.subject.Connect,
		Isolation: isolation,
		Args: func(p ReplicaPorts) []string {
			if i.subject.Args == nil {
				return pod.Spec.Containers[0].Args
			}
			return slices.Concat(pod.Spec.Containers[0].Args, i.subject.Args(p))
		},
	}
}

// variables are those of the Deployment's container.
func (i *Installation) variables() containerVariables {
	pod := i.shipped.Spec.Template
	return containerVariables{
		template: pod, container: pod.Spec.Containers[0], namespace: i.shipped.Namespace, given: i.subject.Env,
	}
}

// HasWebhooks reports whether the subject ships webhooks.
func (i *Installation) HasWebhooks() bool { return i.webhooks }

// Replicas returns all replicas in the order they were started, also those that
// have ended.
func (i *Installation) Replicas() []*Replica {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.replicas)
}

// Stop terminates all replicas concurrently, as the deletion of their Deployment would, and then
// ends the routing. Applied objects stay.
func (i *Installation) Stop(ctx context.Context) error {
	replicas := i.Replicas()
	errs := make([]error, len(replicas))
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
	return errors.Join(errors.Join(errs...), i.stopRouting())
}
