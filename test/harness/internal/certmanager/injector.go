// SPDX-License-Identifier: Apache-2.0

package certmanager

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// injectedKinds are those into which cert-manager injects a CA at run time.
var injectedKinds = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
}

// Injector replaces cert-manager's CA injector for objects that an operator creates or annotates
// while it runs. It injects what Issue has issued, and follows no renewal.
type Injector struct {
	client  client.Client
	bundles caBundles
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// StartInjector returns nil if no Certificate was issued: if no Secret among the objects is from Issue. The config
// is that of the client.
func StartInjector(ctx context.Context, config *rest.Config, c client.Client,
	objects []*unstructured.Unstructured) (*Injector, error) {
	i := &Injector{client: c, bundles: caBundles{}}
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
	informers, err := cache.New(config, cache.Options{})
	if err != nil {
		return nil, fmt.Errorf("watching webhooks: %w", err)
	}
	// It outlives the call, and so must its context.
	ctx, i.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, kind := range injectedKinds {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind)
		informer, err := informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { i.see(ctx, o) },
				UpdateFunc: func(_, o any) { i.see(ctx, o) },
			})
		}
		if err != nil {
			i.cancel()
			return nil, fmt.Errorf("watching %s: %w", kind.Kind, err)
		}
	}
	i.running.Go(func() { _ = informers.Start(ctx) }) // it fails only where the control plane ends first
	return i, nil
}

// see writes the CA into an object that requests it and does not have it.
func (i *Injector) see(ctx context.Context, of any) {
	o, ok := of.(*unstructured.Unstructured)
	if !ok {
		return
	}
	changed, err := i.bundles.inject(o)
	if err == nil && !reflect.DeepEqual(changed, o) {
		_ = i.client.Update(ctx, changed) // after a conflict another event follows
	}
}

// Stop may be called on nil.
func (i *Injector) Stop() {
	if i == nil {
		return
	}
	i.cancel()
	i.running.Wait()
}
