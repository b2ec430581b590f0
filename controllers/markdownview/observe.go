// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// observation is everything that one reconcile has read before it decides. The texts of the view
// and of the ConfigMap are digests; see slim.
type observation struct {
	view *v1beta1.MarkdownView
	// want are the desired children, with digests in place of texts.
	want children
	// The objects with the children's names, owned or foreign; nil if they do not exist.
	configMap  *corev1.ConfigMap
	deployment *appsv1.Deployment
	service    *corev1.Service
}

// observe reads the objects that have the children's names.
func (r *Reconciler) observe(ctx context.Context, v *v1beta1.MarkdownView) (*observation, error) {
	o := &observation{view: v, want: render(v, contentHash(v.Spec.Markdowns), r.Options.DefaultViewerImage)}
	var err error
	if o.configMap, err = observeChild(ctx, r, v, configMap, &corev1.ConfigMap{}); err != nil {
		return nil, err
	}
	if o.deployment, err = observeChild(ctx, r, v, deployment, &appsv1.Deployment{}); err != nil {
		return nil, err
	}
	if o.service, err = observeChild(ctx, r, v, service, &corev1.Service{}); err != nil {
		return nil, err
	}
	return o, nil
}

// observeChild reads a child into `into`, and returns nil if it does not exist. "Not in the cache"
// is not "not there": the cache holds only objects with the operator's label, so a live read
// decides. A view without a status has no children yet. If a foreign object has the name of one,
// its creation is a Conflict, and the next reconcile reads it.
func observeChild[T interface {
	client.Object
	comparable
}](ctx context.Context, r *Reconciler, v *v1beta1.MarkdownView, k kind, into T) (T, error) {
	var none T
	key := client.ObjectKey{Namespace: v.Namespace, Name: nameOf(k, v)}
	child, err := reconciler.Get(ctx, r.Client, key, into)
	if err == nil && child == none && v.Status.ObservedGeneration > 0 {
		if child, err = reconciler.Get(ctx, r.Live, key, into); child != none {
			_, err = slim(child)
		}
	}
	if err != nil {
		return none, fmt.Errorf("reading %s %s: %w", k, key.Name, err)
	}
	return child, nil
}
