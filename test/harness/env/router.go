package env

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
		switch w := i.workloadOf(service); {
		case w == nil:
			return i.unroutable(service)
		case w == i.subject && !slices.Contains(i.webhooks, call.path):
			i.webhooks = append(i.webhooks, call.path)
		}
	}
	return nil
}

func findService(objects []*unstructured.Unstructured, name types.NamespacedName) (*corev1.Service, error) {
	services, err := servicesOf(objects)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(services, func(s corev1.Service) bool { return client.ObjectKeyFromObject(&s) == name })
	if i < 0 {
		return nil, fmt.Errorf("webhooks are called through Service %s, which the manifests do not have", name)
	}
	return &services[i], nil
}

// servicesOf are the Services among what an operator ships.
func servicesOf(objects []*unstructured.Unstructured) ([]corev1.Service, error) {
	var services []corev1.Service
	for _, o := range objects {
		if o.GetKind() != "Service" || o.GroupVersionKind().Group != "" {
			continue
		}
		var s corev1.Service
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); err != nil {
			return nil, fmt.Errorf("decoding Service %s: %w", client.ObjectKeyFromObject(o), err)
		}
		services = append(services, s)
	}
	return services, nil
}

// unroutable is the error for a Service of webhooks that leads to no replica: each call of such a
// webhook would fail.
func (i *Installation) unroutable(s *corev1.Service) error {
	name := client.ObjectKeyFromObject(s)
	for _, d := range i.idle {
		if selectsPods(s, &d) {
			return fmt.Errorf("webhooks are called through Service %s, which selects the Pods of Deployment %s, and that does not run: "+
				"write its program under companions: in the subject", name, d.Name)
		}
	}
	var labels []string
	for _, w := range i.workloads() {
		labels = append(labels, fmt.Sprintf("Deployment %s: the selector is %v and the labels are %v",
			w.shipped.Name, s.Spec.Selector, w.shipped.Spec.Template.Labels))
	}
	return fmt.Errorf("webhooks are called through Service %s, which does not select the Pods of %s", name,
		strings.Join(labels, ", or of "))
}

// workloadOf is the one that a Service leads to, or nil.
func (i *Installation) workloadOf(s *corev1.Service) *workload {
	for _, w := range i.workloads() {
		if w.selects(s) {
			return w
		}
	}
	return nil
}

// route is a serviceRoute.
func (i *Installation) route(ctx context.Context, s *corev1.Service, p corev1.ServicePort) (*Forwarder, error) {
	w := i.workloadOf(s)
	if w == nil {
		return nil, nil
	}
	return w.forwarder(ctx, s, p)
}

func (i *Installation) stopRouting() {
	i.cp.egress.remove(i)
	for _, w := range i.workloads() {
		w.router.stop()
	}
}
