package env

import (
	"cmp"
	"context"
	"errors"
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

// add adds a replica.
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

func (r *router) stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, f := range r.forwarders {
		errs = append(errs, f.Stop())
	}
	return errors.Join(errs...)
}

// routeWebhooks connects the Services of the objects' webhooks with the replicas, and returns the
// objects to apply. These differ from the given ones only in a cluster that was joined, whose
// API server has its own way to Services.
func (i *Installation) routeWebhooks(ctx context.Context,
	objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if i.cp.egress != nil {
		i.cp.egress.add(i, i.route)
	}
	names, err := webhookServices(objects)
	if err != nil {
		return objects, err
	}
	for _, name := range names {
		service, err := findService(objects, name)
		if err != nil {
			return nil, err
		}
		w := i.workloadOf(service)
		if w == nil {
			return nil, i.unroutable(service)
		}
		if w == i.subject {
			if err := i.addWebhooks(objects, name); err != nil {
				return nil, err
			}
		}
		if i.cp.egress != nil {
			continue
		}
		forwarder, err := w.forwarder(ctx, service, webhookPort(service))
		if err != nil {
			return nil, err
		}
		if objects, err = RouteWebhooks(objects, name, forwarder.Port()); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// addWebhooks adds the paths of the webhooks that are called through a Service of the subject.
func (i *Installation) addWebhooks(objects []*unstructured.Unstructured, service types.NamespacedName) error {
	for _, o := range objects {
		configs, err := clientConfigs(o)
		if err != nil {
			return err
		}
		for _, config := range configs {
			name, _, _ := unstructured.NestedString(config, "service", "name")
			namespace, _, _ := unstructured.NestedString(config, "service", "namespace")
			path, _, _ := unstructured.NestedString(config, "service", "path")
			if path = cmp.Or(path, "/"); name == service.Name && namespace == service.Namespace &&
				!slices.Contains(i.webhooks, path) {
				i.webhooks = append(i.webhooks, path)
			}
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

// webhookPort is the port of a Service that webhooks are called through by default, or its first.
func webhookPort(s *corev1.Service) corev1.ServicePort {
	for _, p := range s.Spec.Ports {
		if p.Port == 443 {
			return p
		}
	}
	if len(s.Spec.Ports) == 0 {
		return corev1.ServicePort{}
	}
	return s.Spec.Ports[0]
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

// stopRouting ends the connections through Services.
func (i *Installation) stopRouting() error {
	if i.cp.egress != nil {
		i.cp.egress.remove(i)
	}
	var errs []error
	for _, w := range i.workloads() {
		errs = append(errs, w.router.stop())
	}
	return errors.Join(errs...)
}
