// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"leasehold.dev/test/harness/internal/certmanager"
)

// InstallOptions describe an operator: its manifests and its program.
type InstallOptions struct {
	// Manifests is the path of the whole installation: a kustomize folder, a YAML file, a folder of
	// YAML files or a Helm chart. The replicas have the namespace, ServiceAccount, labels,
	// arguments and environment of the Deployment. Install returns an error if it cannot provide an
	// environment variable, unless Env defines it.
	Manifests string
	// Objects are the objects that Render returned for Manifests. Install does not change them.
	// Nil: Install renders them.
	Objects []*unstructured.Unstructured
	// Chart configures the rendering of a chart.
	Chart Chart
	// Deployment is the name of the Deployment whose replicas run Binary. Empty: the only one.
	Deployment string
	// Report is called with notes about objects that are not installed. It may be nil.
	Report func(string)
	// Binary is the program that a replica runs.
	Binary string
	// WorkingDir is the program's working directory; see ReplicaOptions.
	WorkingDir string
	// Args returns arguments that follow those of the Deployment. They are for settings that differ
	// because several replicas share a machine, such as ports. With most flag packages the last
	// occurrence of a flag counts. Nil: none.
	Args func(ReplicaPorts) []string
	// Env replaces variables of the Deployment's environment; see ReplicaOptions.
	Env []string
	// Connect changes how each replica reaches the API server; see ReplicaOptions.
	Connect func(*rest.Config)
	// Isolated runs each replica like a Pod, if CheckIsolation returns nil: see ReplicaOptions.
	Isolated bool
}

// Installation is an installed operator with its replicas. The control plane has no nodes.
// Processes stand in for the Pods of the Deployment, and a router stands in for the Services that
// select them.
type Installation struct {
	cp       *ControlPlane
	shipped  appsv1.Deployment
	program  InstallOptions
	router   router
	objects  int
	webhooks bool                  // some are shipped
	injector *certmanager.Injector // nil if the harness issues no certificate

	mu       sync.Mutex
	replicas []*Replica
}

// Install applies all objects of the operator except its Deployments, and routes the webhooks to
// the ready replicas. It starts no replica. Stop the Installation before the control plane. Install
// returns an error for an existing cluster.
func (c *ControlPlane) Install(ctx context.Context, s InstallOptions) (*Installation, error) {
	if c.egress == nil {
		return nil, fmt.Errorf("installing the operator: a cluster that exists cannot call the webhooks of processes: unset %s",
			existingVariable)
	}
	objects := s.Objects
	if objects == nil {
		var err error
		if objects, _, err = s.Render(ctx); err != nil {
			return nil, fmt.Errorf("installing the operator: %w", err)
		}
	}
	i, err := c.newInstallation(ctx, s, objects)
	if err != nil {
		return nil, fmt.Errorf("installing %s: %w", s.Manifests, err)
	}
	objects, others, err := i.withoutOthers(objects)
	if err != nil {
		return nil, fmt.Errorf("installing %s: %w", s.Manifests, err)
	}
	objects, undefined, err := withoutUndefined(objects, c.client.RESTMapper())
	for _, note := range []string{others, undefined} {
		if note != "" && s.Report != nil {
			s.Report(note)
		}
	}
	if err == nil {
		err = i.routeWebhooks(objects)
	}
	if err == nil {
		err = c.Apply(ctx, objects...)
	}
	if err == nil {
		i.injector, err = certmanager.StartInjector(ctx, c.Config(), c.client, objects)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("installing %s: %w", s.Manifests, err), i.Stop(ctx))
	}
	i.objects = len(objects)
	return i, nil
}

// newInstallation finds the Deployment that the replicas stand in for.
func (c *ControlPlane) newInstallation(ctx context.Context, s InstallOptions,
	objects []*unstructured.Unstructured) (*Installation, error) {
	shipped, err := TheDeployment(objects, s.Deployment)
	if err != nil {
		return nil, err
	}
	i := &Installation{cp: c, shipped: shipped, program: s}
	o := i.options(0)
	if err := o.variables().check(ctx); err != nil {
		return nil, fmt.Errorf("checking Deployment %s: %w", shipped.Name, err)
	}
	return i, nil
}

// Shipped returns the Deployment that the replicas stand in for.
func (i *Installation) Shipped() *appsv1.Deployment { return i.shipped.DeepCopy() }

// Objects returns the number of applied objects.
func (i *Installation) Objects() int { return i.objects }

// Start starts one more replica, with the Pod name <deployment>-<n>, and routes the webhooks to it
// as soon as it is ready. Start does not wait for that. The change functions run last and can
// change the options of this replica, for example its program.
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
	i.router.add(r)
	return r, nil
}

// HasWebhooks reports whether the subject ships webhooks.
func (i *Installation) HasWebhooks() bool { return i.webhooks }

// Replicas returns all replicas, even after their processes have exited, in the order in which they
// were started.
func (i *Installation) Replicas() []*Replica {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.replicas)
}

// Stop terminates all replicas concurrently, as when their Deployment is deleted, and then stops
// routing the webhooks. It does not delete the applied objects.
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
	i.injector.Stop()
	i.cp.egress.routes.Delete(i)
	i.router.stop()
	return errors.Join(errs...)
}
