// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// Options are the operator's flags for Tenants.
type Options struct {
	AdminClusterRole        string                    // bound to the admins; the operator needs the verb bind on it
	PodSecurityLevel        string                    // enforced in each namespace; "" sets none
	OperatorNamespace       string                    // refused as a namespace of a Tenant
	ReservedNamespaces      []string                  // refused, too; in each * stands for any characters
	MaxConcurrentReconciles int                       // the number of workers
	Ticks                   <-chan event.GenericEvent // each triggers a reconcile of all Ready Tenants; not nil
}

// WatchedObjects returns the kinds that the controller watches. It must not reconcile before their informers
// have synced.
func WatchedObjects() []client.Object {
	return []client.Object{
		&v1beta1.Tenant{}, &corev1.Namespace{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{},
	}
}

// New returns a Reconciler that uses the manager's client.
func New(mgr ctrl.Manager, o Options) *Reconciler {
	return &Reconciler{Base: reconciler.NewBase(mgr, "leasehold-tenant"), Options: o,
		metrics: newMetrics(ctrlmetrics.Registry)}
}

// SetupWithManager adds the controller and its field indexes to the manager.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := New(mgr, o)
	options := controller.Options{MaxConcurrentReconciles: o.MaxConcurrentReconciles,
		RateLimiter: reconciler.RateLimiter(reconciler.FirstRetry)}
	return ctrl.NewControllerManagedBy(mgr).Named("tenant").WithOptions(options).
		For(&v1beta1.Tenant{}, builder.WithPredicates(predicate.Or(reconciler.Changed, finalizerLost))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.tenantsNaming)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.tenantsNaming)).
		Watches(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(r.tenantsOfRole)).
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.tenantsOfRole)).
		WatchesRawSource(source.Channel(o.Ticks, reconciler.Resync(r.tenantsReady))).
		Complete(r)
}

// finalizerLost accepts updates that remove the operator's finalizer.
var finalizerLost = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return slices.Contains(e.ObjectOld.GetFinalizers(), v1beta1.TenantFinalizer) &&
		!slices.Contains(e.ObjectNew.GetFinalizers(), v1beta1.TenantFinalizer)
}}

// tenantsNaming returns the Tenants that name a namespace, or that of a binding of the reserved name. What the
// object claims does not count, since users can write it.
func (r *Reconciler) tenantsNaming(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{indexNamespaces: cmp.Or(o.GetNamespace(), o.GetName())})
}

// tenantsOfRole returns the Tenant of a reader role, and all Tenants for the role that admins are bound to.
func (r *Reconciler) tenantsOfRole(ctx context.Context, o client.Object) []reconcile.Request {
	if _, isRole := o.(*rbacv1.ClusterRole); isRole && o.GetName() == r.Options.AdminClusterRole {
		return r.requests(ctx)
	}
	if name, ok := strings.CutPrefix(o.GetName(), readerNamePrefix); ok {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	}
	return nil
}

// tenantsReady returns the Tenants for the periodic reconcile. Others are retried by the queue.
func (r *Reconciler) tenantsReady(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{indexReady: string(metav1.ConditionTrue)})
}

func (r *Reconciler) requests(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	return reconciler.Requests(ctx, r.Client, &v1beta1.TenantList{}, nil, opts...)
}

// Field indexes of the cache.
const (
	indexNamespaces = "leasehold.dev/holds" // from the full name of a namespace to the Tenants with it in spec or status
	indexReady      = "leasehold.dev/ready" // from a status of the Ready condition to Tenants
)

// addIndexes registers the indexes. It must run before the cache starts.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v1beta1.Tenant{}, indexNamespaces,
			func(o client.Object) []string { return usedNames(o.(*v1beta1.Tenant)) }),
		indexer.IndexField(ctx, &v1beta1.Tenant{}, indexReady, func(o client.Object) []string {
			ready := reporting.FindCondition(o.(*v1beta1.Tenant).Status.Conditions, v1beta1.ConditionReady)
			return []string{string(ready.Status)}
		}))
}

// CacheByObject returns cache options that select the RoleBindings of the reserved name. Users who may write
// RoleBindings in any namespace can create one there.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&rbacv1.RoleBinding{}: {
		Field: fields.OneTermEqualSelector("metadata.name", adminBindingName), Transform: slimBinding}}
}

// slimBinding drops labels and annotations of other clients, and managed fields, which no reconcile reads or writes.
func slimBinding(in any) (any, error) {
	if b, ok := in.(*rbacv1.RoleBinding); ok {
		ours := []string{v1beta1.LabelTenant, v1beta1.LabelManagedBy, v1beta1.AnnotationTenantUID}
		b.Labels, b.Annotations = reconciler.Only(b.Labels, ours...), reconciler.Only(b.Annotations, ours...)
		b.ManagedFields = nil
	}
	return in, nil
}
