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

// observation is everything that one reconcile has read. The decision reads nothing else.
type observation struct {
	view *v1beta1.MarkdownView
	// before is the status of the view as it was read.
	before v1beta1.MarkdownViewStatus
	// want is the digest of the desired children.
	want desired
	// The objects with the children's names, owned or foreign; nil if they do not exist.
	configMap  *corev1.ConfigMap
	deployment *appsv1.Deployment
	service    *corev1.Service
}

// observe reads the view's children, from the cache where that is enough.
func (r *Reconciler) observe(ctx context.Context, v *v1beta1.MarkdownView) (*observation, error) {
	o := &observation{view: v, before: *v.Status.DeepCopy()}
	var err error
	if o.want, err = desiredBy(v, r.Options.DefaultViewerImage); err != nil {
		return nil, err
	}
	content := client.ObjectKey{Namespace: v.Namespace, Name: contentPrefix + v.Name}
	viewer := client.ObjectKey{Namespace: v.Namespace, Name: viewerPrefix + v.Name}
	cache := r.own.views.Reader(client.ObjectKeyFromObject(v), r.Client, r.Live)
	// A view that has never been reconciled has no children. If a foreign object has the name of
	// one, its creation fails, and the next reconcile reads it.
	live := r.Live
	if v.Status.ObservedGeneration <= 0 {
		live = nil
	}
	if o.configMap, err = observeChild(ctx, cache, live, &r.own.configMaps, content, &corev1.ConfigMap{}); err != nil {
		return nil, fmt.Errorf("reading configmap %s: %w", content.Name, err)
	}
	if o.deployment, err = observeChild(ctx, cache, live, &r.own.deployments, viewer, &appsv1.Deployment{}); err != nil {
		return nil, fmt.Errorf("reading deployment %s: %w", viewer.Name, err)
	}
	if o.service, err = observeChild(ctx, cache, live, &r.own.services, viewer, &corev1.Service{}); err != nil {
		return nil, fmt.Errorf("reading service %s: %w", viewer.Name, err)
	}
	return o, nil
}

// observeChild reads a child from the API server if the cache is not enough. The cache holds only
// objects with the operator's label: a foreign object, or a child that has lost its label, is not
// in it. The cache may also be older than this process's last write. If live is nil, observeChild
// only reads the cache.
//
// It records the version of a live read. Otherwise the next reconcile could read an older version
// from the cache and revert what the status reports.
func observeChild[T interface {
	client.Object
	comparable
}](ctx context.Context, cache, live client.Reader, own *reconciler.ReadYourWrites, key client.ObjectKey,
	into T) (T, error) {
	var none T
	child, err := reconciler.Get(ctx, cache, key, into)
	if err != nil || live == nil || (child != none && !own.Stale(child)) {
		return child, err
	}
	if child, err = reconciler.Get(ctx, live, key, into); err == nil && child != none {
		own.Observe(child)
	}
	return child, err
}
