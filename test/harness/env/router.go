package env

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// router is the way from Services to the Pods of a Deployment. Its lock is not the Installation's:
// the request that creates a replica's Pod may itself call a webhook.
type router struct {
	mu   sync.Mutex
	pods []podBackend
	// forwarders are by the port of the Pods. There is none before the first call, because its
	// probes disturb the replicas.
	forwarders map[int]*Forwarder
}

// podBackend returns the way to a port of a Pod.
type podBackend func(port int) Backend

func (r *router) add(ctx context.Context, pod podBackend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = append(r.pods, pod)
	for port, f := range r.forwarders {
		f.SetBackends(context.WithoutCancel(ctx), r.backends(port)...)
	}
}

func (r *router) backends(port int) []Backend {
	all := make([]Backend, len(r.pods))
	for i, pod := range r.pods {
		all[i] = pod(port)
	}
	return all
}

// start returns the Forwarder to a port of the Pods, and starts it for the first caller.
func (r *router) start(ctx context.Context, port int) (*Forwarder, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.forwarders[port]; f != nil {
		return f, nil
	}
	// The Forwarder outlives the call, and so must its context.
	f, err := StartForwarder(context.WithoutCancel(ctx), routeInterval, r.backends(port)...)
	if err != nil {
		return nil, err
	}
	if r.forwarders == nil {
		r.forwarders = map[int]*Forwarder{}
	}
	r.forwarders[port] = f
	return f, nil
}

func (r *router) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.forwarders {
		f.Stop()
	}
}

// routeWebhooks connects the Services of webhooks with the replicas. A Service of the shipped
// webhooks that leads to no replica is an error.
func (i *Installation) routeWebhooks(objects []*unstructured.Unstructured) error {
	i.cp.egress.add(i, i.route)
	calls, err := webhookCalls(objects)
	if err != nil {
		return err
	}
	for _, call := range calls {
		service, err := findService(objects, call.service)
		if err != nil {
			return err
		}
		if !i.subject.selects(service) {
			shipped := i.subject.shipped
			return fmt.Errorf("webhooks are called through Service %s, which does not select the Pods of Deployment %s, "+
				"and no other Deployment runs: the selector is %v and the labels are %v",
				call.service, shipped.Name, service.Spec.Selector, shipped.Spec.Template.Labels)
		}
		if !slices.Contains(i.webhooks, call.path) {
			i.webhooks = append(i.webhooks, call.path)
		}
	}
	return nil
}

func findService(objects []*unstructured.Unstructured, name types.NamespacedName) (*corev1.Service, error) {
	for _, o := range objects {
		if o.GetKind() != "Service" || o.GroupVersionKind().Group != "" || client.ObjectKeyFromObject(o) != name {
			continue
		}
		var s corev1.Service
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); err != nil {
			return nil, fmt.Errorf("decoding Service %s: %w", name, err)
		}
		return &s, nil
	}
	return nil, fmt.Errorf("webhooks are called through Service %s, which the manifests do not have", name)
}

// route is a serviceRoute.
func (i *Installation) route(ctx context.Context, s *corev1.Service, p corev1.ServicePort) (*Forwarder, error) {
	if !i.subject.selects(s) {
		return nil, nil
	}
	port, err := i.subject.targetPort(s, p)
	if err != nil {
		return nil, err
	}
	return i.subject.router.start(ctx, port)
}
