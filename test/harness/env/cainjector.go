// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"reflect"
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

// caInjector replaces cert-manager's CA injector for objects that an operator creates or annotates
// while it runs. It injects what issueCertificates has issued, and follows no renewal.
type caInjector struct {
	client  client.Client
	bundles caBundles
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// startInjector returns nil if no Certificate was issued.
func (c *ControlPlane) startInjector(ctx context.Context, objects []*unstructured.Unstructured) (*caInjector, error) {
	i := &caInjector{client: c.client, bundles: caBundles{}}
	for _, o := range objects {
		if o.GetKind() != "Secret" || o.GetAnnotations()[issuedFor] == "" {
			continue
		}
		bundle, _, err := unstructured.NestedString(o.Object, "data", "ca.crt")
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s: %w", client.ObjectKeyFromObject(o), err)
		}
		i.bundles.add(o, bundle)
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
	for _, kind := range injectedKinds {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind)
		if err := watchObjects(ctx, informers, o, i.see, func(any) {}); err != nil {
			i.cancel()
			return nil, fmt.Errorf("watching %s: %w", kind.Kind, err)
		}
	}
	i.running.Go(func() { _ = informers.Start(ctx) }) // it fails only where the control plane ends first
	return i, nil
}

// see writes the CA into an object that requests it and does not have it.
func (i *caInjector) see(ctx context.Context, of any) {
	o, ok := of.(*unstructured.Unstructured)
	if !ok {
		return
	}
	changed, err := i.bundles.inject(o)
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
