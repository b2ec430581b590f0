// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"context"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// Options are the settings of the controller from the operator's flags.
type Options struct {
	// DefaultViewerImage is the viewer image of views that name none.
	DefaultViewerImage string
	// MaxConcurrentReconciles bounds the views that are reconciled at the same time.
	MaxConcurrentReconciles int
	// Ticks triggers a reconcile of all views. It is not nil.
	Ticks <-chan event.GenericEvent
}

// CacheByObject bounds what the cache stores. Of the children's kinds it stores only objects with
// the operator's label.
func CacheByObject() map[client.Object]cache.ByObject {
	labelled := labels.SelectorFromSet(labels.Set{v1beta1.LabelManagedBy: v1beta1.ManagedByValue})
	return map[client.Object]cache.ByObject{
		&v1beta1.MarkdownView{}: {Transform: slim},
		&corev1.ConfigMap{}:     {Label: labelled, Transform: slim},
		&appsv1.Deployment{}:    {Label: labelled, Transform: slim},
		&corev1.Service{}:       {Label: labelled, Transform: slim},
	}
}

// digested is the annotation of an object that slim has seen. Its name is not valid, so no object of the API
// has it, and what a client writes is always taken for a text.
const digested = "leasehold.dev/texts/digested"

// maxChildSpec is up to how many bytes a Deployment or Service is cached with its spec. The operator's have 40 KiB.
const maxChildSpec = 64 << 10

// slim drops what no reconcile reads, and replaces texts by digests. A reflector passes streamed objects twice. A
// child that is too large loses what it is compared by, so each reconcile applies it.
func slim(in any) (any, error) {
	o, ok := in.(client.Object)
	if !ok { // a tombstone
		return in, nil
	}
	if _, done := o.GetAnnotations()[digested]; done {
		return in, nil
	}
	reconciler.Slim(o, "")
	kept := map[string]string{digested: ""}
	maps.Copy(kept, o.GetAnnotations())
	o.SetAnnotations(kept)
	o.SetLabels(reconciler.Only(o.GetLabels(), labelName, labelInstance, labelPartOf, v1beta1.LabelManagedBy))
	owner := metav1.GetControllerOf(o)
	o.SetOwnerReferences(nil)
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
	switch o := o.(type) {
	case *v1beta1.MarkdownView:
		for name, text := range o.Spec.Markdowns {
			o.Spec.Markdowns[name] = v1beta1.MarkdownText(digest(string(text)))
		}
	case *corev1.ConfigMap:
		o.BinaryData = nil
		if len(o.Data) > v1beta1.MaxMarkdowns {
			o.Data = nil
		}
		for name, text := range o.Data {
			o.Data[name] = digest(text)
		}
	case *appsv1.Deployment:
		if o.Size() > maxChildSpec {
			o.Spec = appsv1.DeploymentSpec{}
		}
	case *corev1.Service:
		if o.Size() > maxChildSpec {
			o.Spec, o.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
		}
	}
	return o, nil
}

// WatchedObjects returns the kinds that the controller watches. It can reconcile only after their
// informers have synced.
func WatchedObjects() []client.Object {
	return []client.Object{&v1beta1.MarkdownView{}, &corev1.ConfigMap{}, &appsv1.Deployment{}, &corev1.Service{}}
}

// New returns a Reconciler that uses the manager's client.
func New(mgr ctrl.Manager, o Options) *Reconciler {
	return &Reconciler{Base: reconciler.NewBase(mgr, "leasehold-markdownview"), Options: o,
		available: newMetric(ctrlmetrics.Registry)}
}

// SetupWithManager adds the controller to the manager.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r, child := New(mgr, o), handler.EnqueueRequestsFromMapFunc(viewsOf)
	return ctrl.NewControllerManagedBy(mgr).Named("markdownview").
		WithOptions(controller.Options{MaxConcurrentReconciles: o.MaxConcurrentReconciles,
			RateLimiter: reconciler.RateLimiter(reconciler.FirstRetry)}).
		For(&v1beta1.MarkdownView{}, builder.WithPredicates(reconciler.Changed)).
		Watches(&corev1.ConfigMap{}, child).
		Watches(&appsv1.Deployment{}, child).
		Watches(&corev1.Service{}, child).
		WatchesRawSource(source.Channel(o.Ticks, reconciler.Resync(r.allViews))).
		Complete(r)
}

// viewsOf maps a child to the views that it may affect: the one that its owner reference names, and
// the one whose child has this name, which the object may block. It compares names only; the
// reconcile decides the ownership by UID.
func viewsOf(_ context.Context, o client.Object) []reconcile.Request {
	var requests []reconcile.Request
	add := func(name string) {
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: name}
		if name != "" && !slices.Contains(requests, reconcile.Request{NamespacedName: key}) {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
	}
	if c := metav1.GetControllerOfNoCopy(o); c != nil && c.Kind == viewKind.Kind &&
		c.APIVersion == viewKind.GroupVersion().String() {
		add(c.Name)
	}
	prefix := viewerPrefix
	if _, ok := o.(*corev1.ConfigMap); ok {
		prefix = contentPrefix
	}
	if name, ok := strings.CutPrefix(o.GetName(), prefix); ok {
		add(name)
	}
	return requests
}

// allViews maps a tick to all views.
func (r *Reconciler) allViews(ctx context.Context, _ client.Object) []reconcile.Request {
	return reconciler.Requests(ctx, r.Client, &v1beta1.MarkdownViewList{}, nil)
}
