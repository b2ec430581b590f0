package env

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// router is the way from Services to the webhooks of an Installation's replicas. Its lock is not
// the Installation's: the request that creates a replica's Pod may itself call a webhook.
type router struct {
	mu        sync.Mutex
	backends  []Backend
	forwarder *Forwarder // nil until a webhook is shipped or called
}

// add adds a replica.
func (r *router) add(ctx context.Context, b Backend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backends = append(r.backends, b)
	if r.forwarder != nil {
		r.forwarder.SetBackends(context.WithoutCancel(ctx), slices.Clone(r.backends)...)
	}
}

// start returns the Forwarder and starts it for the first caller. Without webhooks there is none,
// and its probes do not disturb the replicas.
func (r *router) start(ctx context.Context) (_ *Forwarder, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forwarder == nil {
		// The Forwarder outlives the call, and so must its context.
		r.forwarder, err = StartForwarder(context.WithoutCancel(ctx), routeInterval, slices.Clone(r.backends)...)
	}
	return r.forwarder, err
}

func (r *router) stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forwarder == nil {
		return nil
	}
	return r.forwarder.Stop()
}

// routeWebhooks connects the Services of the objects' webhooks with the replicas, and returns the
// objects to apply. These differ from the given ones only in a cluster that was joined, whose
// API server has its own way to Services.
func (i *Installation) routeWebhooks(ctx context.Context, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if i.cp.egress != nil {
		i.cp.egress.add(i, i.route)
	}
	services, err := webhookServices(objects)
	if err != nil || len(services) == 0 {
		return objects, err
	}
	i.webhooks = true
	if err := i.checkServices(objects, services); err != nil {
		return nil, err
	}
	forwarder, err := i.router.start(ctx)
	if err != nil || i.cp.egress != nil {
		return objects, err
	}
	for _, service := range services {
		if objects, err = RouteWebhooks(objects, service, forwarder.Port()); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// checkServices finds Services that lead to no replica: each call of such a webhook would fail.
func (i *Installation) checkServices(objects []*unstructured.Unstructured, services []types.NamespacedName) error {
	for _, name := range services {
		at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "Service" && client.ObjectKeyFromObject(o) == name
		})
		if at < 0 {
			return fmt.Errorf("webhooks are called through Service %s, which the manifests do not have", name)
		}
		var service corev1.Service
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[at].Object, &service); err != nil {
			return fmt.Errorf("decoding Service %s: %w", name, err)
		}
		if !i.selects(&service) {
			return fmt.Errorf("webhooks are called through Service %s, which does not select the Pods of Deployment %s: "+
				"the selector is %v and the labels are %v", name, i.shipped.Name, service.Spec.Selector, i.shipped.Spec.Template.Labels)
		}
	}
	return nil
}

func (i *Installation) selects(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && s.Namespace == i.shipped.Namespace &&
		labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(i.shipped.Spec.Template.Labels))
}

// route is a serviceRoute. A replica has one port for its webhooks, whatever its container's is
// called, but a name that no port of the container has is an error here as in a cluster.
func (i *Installation) route(ctx context.Context, s *corev1.Service, p corev1.ServicePort) (*Forwarder, error) {
	if !i.selects(s) {
		return nil, nil
	}
	container := i.shipped.Spec.Template.Spec.Containers[0]
	if p.TargetPort.Type == intstr.String && !slices.ContainsFunc(container.Ports, func(c corev1.ContainerPort) bool {
		return c.Name == p.TargetPort.StrVal
	}) {
		return nil, fmt.Errorf("routing to Service %s: its target is port %q, and container %s has no port of this name",
			client.ObjectKeyFromObject(s), p.TargetPort.StrVal, container.Name)
	}
	return i.router.start(ctx)
}

// stopRouting ends the connections of webhooks.
func (i *Installation) stopRouting() error {
	if i.cp.egress != nil {
		i.cp.egress.remove(i)
	}
	return i.router.stop()
}
