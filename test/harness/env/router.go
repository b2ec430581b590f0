// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pod is a target of a router's connections.
type pod interface {
	// Ready returns nil while connections may be sent there.
	Ready(ctx context.Context) error
	// address returns where a port of the Pod is reached.
	address(port int) (string, error)
}

// router stands in for the Services of a Deployment where there is no kube-proxy: it connects each
// caller with the next Pod that is ready, in turn. Like a Service it does not try a second Pod where
// the connection fails, and leaves open connections alone when their Pod stops being ready. It probes
// a Pod for each connection, and not periodically as a kubelet: readiness often includes a TLS
// handshake, which costs a replica milliseconds. A paused Pod delays the caller by the timeout of its probe. Its
// lock is not the Installation's: the request that creates a replica's Pod may itself call a webhook.
type router struct {
	mu   sync.Mutex
	pods []pod
	next int
}

func (r *router) add(p pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = append(r.pods, p)
}

// dial connects to a port of the next ready Pod.
func (r *router) dial(ctx context.Context, port int) (net.Conn, error) {
	r.mu.Lock()
	r.next++
	next, pods := r.next, slices.Clone(r.pods)
	r.mu.Unlock()
	for i := range pods {
		p := pods[(next+i)%len(pods)]
		if p.Ready(ctx) != nil {
			continue
		}
		address, err := p.address(port)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	return nil, errors.New("no Pod is ready")
}

// stop forgets the Pods. Their connections have ended with them.
func (r *router) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = nil
}

// routeWebhooks connects the Services of webhooks with the replicas. A Service of the shipped
// webhooks that leads to no replica is an error.
func (i *Installation) routeWebhooks(objects []*unstructured.Unstructured) error {
	i.cp.egress.routes.Store(i, serviceRoute(i.route))
	names, err := webhookServices(objects)
	if err != nil {
		return err
	}
	for _, name := range names {
		service, err := findService(objects, name)
		if err != nil {
			return err
		}
		if !selects(service, i.shipped) {
			return fmt.Errorf("webhooks are called through Service %s, which does not select the Pods of Deployment %s, "+
				"and no other Deployment runs: the selector is %v and the labels are %v",
				name, i.shipped.Name, service.Spec.Selector, i.shipped.Spec.Template.Labels)
		}
		i.webhooks = true
	}
	return nil
}

// withoutOthers leaves out the Deployments, and the webhooks that are served by those that do not run, also
// conversions, where there is one version only. note names what has them; it is "" if nothing has.
func (i *Installation) withoutOthers(
	objects []*unstructured.Unstructured,
) (rest []*unstructured.Unstructured, note string, err error) {
	deployments, err := Deployments(objects)
	if err != nil {
		return nil, "", err
	}
	servedByOther := func(name types.NamespacedName) bool {
		service, err := findService(objects, name)
		return err == nil && !selects(service, i.shipped) &&
			slices.ContainsFunc(deployments, func(d appsv1.Deployment) bool { return selects(service, d) })
	}
	var left []string
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			continue
		}
		names, err := webhookServices([]*unstructured.Unstructured{o})
		if err != nil {
			return nil, "", err
		}
		others := len(names) > 0 &&
			!slices.ContainsFunc(names, func(n types.NamespacedName) bool { return !servedByOther(n) })
		found, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "versions")
		versions, _ := found.([]any)
		switch {
		case others && o.GetKind() != "CustomResourceDefinition":
			left = append(left, fmt.Sprintf("%s %s", o.GetKind(), o.GetName()))
			continue
		case others && len(versions) == 1:
			left = append(left, "the conversion of "+o.GetName())
			o = o.DeepCopy()
			unstructured.RemoveNestedField(o.Object, "spec", "conversion")
		}
		rest = append(rest, o)
	}
	if len(left) > 0 {
		note = "not installed, as their Deployment does not run: " + strings.Join(left, ", ")
	}
	return rest, note, nil
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
	return nil, fmt.Errorf("webhooks or the conversions of CustomResourceDefinitions are called through Service %s, which the manifests "+
		"do not have; add it, or leave out what names it", name)
}

// route is a serviceRoute.
func (i *Installation) route(ctx context.Context, s *corev1.Service, p corev1.ServicePort) (net.Conn, error) {
	if !selects(s, i.shipped) {
		return nil, nil
	}
	port, err := i.targetPort(s, p)
	if err != nil {
		return nil, err
	}
	return i.router.dial(ctx, port)
}
