// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

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
// caller with the next Pod that is ready, in turn. Like a Service it does not try a second Pod, and
// leaves open connections alone when their Pod stops being ready. Its lock is not the Installation's:
// the request that creates a replica's Pod may itself call a webhook.
type router struct {
	// begin starts the probes with the first connection, because they disturb the replicas.
	begin   sync.Once
	looking sync.Mutex // serializes updates, so that the last one has the newest Pods
	polling sync.WaitGroup

	mu     sync.Mutex
	ctx    context.Context // nil before the first connection
	cancel context.CancelFunc
	pods   []pod
	ready  []pod
	next   int
}

func (r *router) add(p pod) {
	r.mu.Lock()
	r.pods = append(r.pods, p)
	begun := r.ctx != nil
	r.mu.Unlock()
	if begun {
		r.look()
	}
}

// dial connects to a port of the next ready Pod. The connection has to be closed when the returned
// context ends.
func (r *router) dial(ctx context.Context, port int) (net.Conn, context.Context, error) {
	r.begin.Do(func() {
		r.mu.Lock()
		// The probes outlive the call, and so must their context.
		r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
		r.mu.Unlock()
		r.look()
		r.polling.Go(r.poll)
	})
	r.mu.Lock()
	if len(r.ready) == 0 {
		r.mu.Unlock()
		return nil, nil, errors.New("no Pod is ready")
	}
	r.next++
	p, until := r.ready[r.next%len(r.ready)], r.ctx
	r.mu.Unlock()
	address, err := p.address(port)
	if err != nil {
		return nil, nil, err
	}
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	return server, until, err
}

func (r *router) poll() {
	tick := time.NewTicker(routeInterval)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
			r.look()
		}
	}
}

// look probes all Pods concurrently, so one that does not answer does not delay the others.
func (r *router) look() {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.mu.Lock()
	pods := slices.Clone(r.pods)
	r.mu.Unlock()
	answers := make([]error, len(pods))
	var all sync.WaitGroup
	for i, p := range pods {
		all.Go(func() { answers[i] = p.Ready(r.ctx) })
	}
	all.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = nil
	for i, err := range answers {
		if err == nil {
			r.ready = append(r.ready, pods[i])
		}
	}
}

// stop ends the probes, and the context of all connections.
func (r *router) stop() {
	r.begin.Do(func() {})
	r.mu.Lock()
	cancel := r.cancel
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	r.polling.Wait()
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
		if !i.selects(service) {
			return fmt.Errorf("webhooks are called through Service %s, which does not select the Pods of Deployment %s, "+
				"and no other Deployment runs: the selector is %v and the labels are %v",
				call.service, i.shipped.Name, service.Spec.Selector, i.shipped.Spec.Template.Labels)
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
func (i *Installation) route(ctx context.Context, s *corev1.Service,
	p corev1.ServicePort) (net.Conn, context.Context, error) {
	if !i.selects(s) {
		return nil, nil, nil
	}
	port, err := i.targetPort(s, p)
	if err != nil {
		return nil, nil, err
	}
	return i.router.dial(ctx, port)
}
