package env

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// routeInterval is how often the stand-in for the webhook Service asks the
// replicas whether they are ready.
const routeInterval = 100 * time.Millisecond

// Subject is an operator as it ships: its manifests, and how one replica of it
// is started.
type Subject struct {
	// Manifests is the kustomize directory of the whole installation. Its
	// Deployments are left out: the replicas stand in for their Pods.
	Manifests string
	// WebhookService is the Service that its webhooks are called through. Zero:
	// it has no webhooks.
	WebhookService types.NamespacedName
	// Replica is what all replicas have in common; Name is set by each.
	Replica ReplicaOptions
}

// Deployment is an installed Subject with its replicas.
type Deployment struct {
	cp        *ControlPlane
	subject   Subject
	forwarder *Forwarder // nil without webhooks

	mu       sync.Mutex
	replicas []*Replica
}

// Install applies what the subject ships, with its webhooks routed to the
// replicas that are ready. It starts none. The Deployment has to be stopped
// before the control plane.
func (c *ControlPlane) Install(ctx context.Context, s Subject) (*Deployment, error) {
	d := &Deployment{cp: c, subject: s}
	objects, err := c.Render(ctx, s.Manifests)
	if err != nil {
		return nil, fmt.Errorf("installing the operator: %w", err)
	}
	if s.WebhookService.Name != "" {
		// The forwarder outlives the call, and so must its context.
		if d.forwarder, err = StartForwarder(context.WithoutCancel(ctx), routeInterval); err != nil {
			return nil, fmt.Errorf("installing the operator: %w", err)
		}
		objects, err = RouteWebhooks(objects, s.WebhookService, d.forwarder.Port())
	}
	if err == nil {
		err = c.Apply(ctx, withoutDeployments(objects)...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("installing the operator: %w", err), d.Stop(ctx))
	}
	return d, nil
}

func withoutDeployments(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var rest []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			rest = append(rest, o)
		}
	}
	return rest
}

// Start starts one more replica, under the given Pod name, and routes the
// webhooks to it as soon as it is ready. It does not wait for that.
func (d *Deployment) Start(ctx context.Context, name string) (*Replica, error) {
	o := d.subject.Replica
	o.Name = name
	r, err := StartReplica(ctx, d.cp, o)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.replicas = append(d.replicas, r)
	replicas := append([]*Replica(nil), d.replicas...)
	d.mu.Unlock()
	if d.forwarder != nil {
		var backends []Backend
		for _, r := range replicas {
			backends = append(backends, r.WebhookBackend())
		}
		d.forwarder.SetBackends(context.WithoutCancel(ctx), backends...)
	}
	return r, nil
}

// Replicas returns all replicas in the order they were started, also those that
// have ended.
func (d *Deployment) Replicas() []*Replica {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*Replica(nil), d.replicas...)
}

// Stop ends the replicas as a kubelet would and then the routing. What was
// applied stays.
func (d *Deployment) Stop(ctx context.Context) error {
	var errs []error
	for _, r := range d.Replicas() {
		if r.Running() {
			_, err := r.Stop(ctx)
			errs = append(errs, err)
		}
	}
	if d.forwarder != nil {
		errs = append(errs, d.forwarder.Stop())
	}
	return errors.Join(errs...)
}
