// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// injectedKinds are those into which cert-manager injects a CA at run time.
var injectedKinds = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
}

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// caInjector replaces cert-manager's CA injector for objects that an operator creates or annotates
// while it runs, and after a Secret of issueCertificates has changed, as by a renewal.
type caInjector struct {
	client client.Client

	mu      sync.Mutex
	bundles caBundles

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// startInjector returns nil if no Certificate was issued.
func (c *ControlPlane) startInjector(ctx context.Context, objects []*unstructured.Unstructured) (*caInjector, error) {
	i := &caInjector{client: c.client, bundles: caBundles{}}
	for _, o := range objects {
		if _, err := i.read(o); err != nil {
			return nil, err
		}
	}
	if len(i.bundles) == 0 {
		return nil, nil
	}
	informers, err := cache.New(c.Config(), cache.Options{})
	if err != nil {
		return nil, fmt.Errorf("watching webhooks: %w", err)
	}
	// It outlives the call, and so must its context.
	ctx, i.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, kind := range append(slices.Clone(injectedKinds), secretKind) {
		see := i.see
		if kind == secretKind {
			see = i.renew
		}
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind)
		if err := watchObjects(ctx, informers, o, see, func(any) {}); err != nil {
			i.cancel()
			return nil, fmt.Errorf("watching %s: %w", kind.Kind, err)
		}
	}
	i.running.Go(func() { _ = informers.Start(ctx) }) // it fails only where the control plane ends first
	return i, nil
}

// read takes the CA of a Secret that was issued for a Certificate, and reports whether there is one.
func (i *caInjector) read(o *unstructured.Unstructured) (bool, error) {
	if o.GetKind() != secretKind.Kind || o.GetAnnotations()[issuedFor] == "" {
		return false, nil
	}
	bundle, _, err := unstructured.NestedString(o.Object, "data", "ca.crt")
	if err != nil {
		return false, fmt.Errorf("reading Secret %s: %w", client.ObjectKeyFromObject(o), err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.bundles.add(o, bundle)
	return true, nil
}

// renew writes the CA of a Secret into all objects that request it.
func (i *caInjector) renew(ctx context.Context, of any) {
	secret, ok := of.(*unstructured.Unstructured)
	if !ok {
		return
	}
	if issued, err := i.read(secret); err != nil || !issued {
		return
	}
	for _, kind := range injectedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		_ = i.client.List(ctx, list) // it fails only where the control plane ends first
		for n := range list.Items {
			i.see(ctx, &list.Items[n])
		}
	}
}

// see writes the CA into an object that requests it and does not have it.
func (i *caInjector) see(ctx context.Context, of any) {
	o, ok := of.(*unstructured.Unstructured)
	if !ok {
		return
	}
	i.mu.Lock()
	changed, err := i.bundles.inject(o)
	i.mu.Unlock()
	if err == nil && !reflect.DeepEqual(changed, o) {
		_ = i.client.Update(ctx, changed) // after a conflict another event follows
	}
}

// stop may be called on nil.
func (i *caInjector) stop() {
	if i == nil {
		return
	}
	i.cancel()
	i.running.Wait()
}
