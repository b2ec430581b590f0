package tenant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// Options are the operator's flags for Tenants.
type Options struct {
	// AdminClusterRole is bound to the admins in each namespace. The operator
	// needs the verb bind on it, by name.
	AdminClusterRole string
	// PodSecurityLevel is enforced in each namespace; "" sets none.
	PodSecurityLevel string
	// OperatorNamespace is refused as a namespace of a Tenant.
	OperatorNamespace string
	// MaxConcurrentReconciles is the number of workers.
	MaxConcurrentReconciles int
	// SyncPeriod is the interval at which a Ready Tenant is reconciled without a change.
	SyncPeriod time.Duration
	// Ticks trigger the periodic reconciles; nil disables them.
	Ticks <-chan event.GenericEvent
	// NewQueue creates the work queue; nil selects the default queue. The health check
	// observes the progress of the queue.
	NewQueue reconciler.NewQueue
	// Clock is nil for the real clock.
	Clock clock.PassiveClock
}

// WatchedObjects returns the kinds that the controller watches. It must not reconcile
// before their informers have synced.
func WatchedObjects() []client.Object {
	return []client.Object{
		&v1beta1.Tenant{}, &corev1.Namespace{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{},
	}
}

// New returns a Reconciler that uses the manager's client.
func New(mgr ctrl.Manager, o Options) (*Reconciler, error) {
	m, err := newMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("leasehold-tenant"),
		Options: o, Clock: o.Clock, metrics: m,
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	return r, nil
}

// SetupWithManager adds the controller and its field indexes to the manager.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r, err := New(mgr, o)
	if err != nil {
		return err
	}
	options := controller.Options{MaxConcurrentReconciles: o.MaxConcurrentReconciles, NewQueue: o.NewQueue}
	b := ctrl.NewControllerManagedBy(mgr).Named("tenant").WithOptions(options).
		For(&v1beta1.Tenant{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, finalizerLost))).
		Watches(&v1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(r.tenantsSharing), builder.WithPredicates(deletion)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.tenantsOfNamespace)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.tenantsOfBinding)).
		Watches(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(r.tenantsOfRole)).
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.tenantsOfRole))
	if o.Ticks != nil {
		b = b.WatchesRawSource(source.Channel(o.Ticks, handler.EnqueueRequestsFromMapFunc(r.tenantsDue)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("adding tenant controller: %w", err)
	}
	return nil
}

// deletion accepts only delete events.
var deletion = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// finalizerLost accepts updates that remove the operator's finalizer.
var finalizerLost = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return slices.Contains(e.ObjectOld.GetFinalizers(), v1beta1.TenantFinalizer) &&
			!slices.Contains(e.ObjectNew.GetFinalizers(), v1beta1.TenantFinalizer)
	},
}

// tenantsSharing returns the Tenants that name a namespace of a deleted Tenant, whose
// claims do not count any more.
func (r *Reconciler) tenantsSharing(ctx context.Context, o client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range usedNames(o.(*v1beta1.Tenant)) {
		requests = append(requests, r.tenantsUsing(ctx, name)...)
	}
	return requests
}

// tenantsOfNamespace returns the Tenants that name the namespace and those it claims.
func (r *Reconciler) tenantsOfNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return append(r.tenantsUsing(ctx, o.GetName()), claimedNames(o)...)
}

// tenantsOfBinding returns the Tenants that name the namespace of a binding of the reserved name.
// What the binding claims does not count, since users can write it.
func (r *Reconciler) tenantsOfBinding(ctx context.Context, o client.Object) []reconcile.Request {
	return r.tenantsUsing(ctx, o.GetNamespace())
}

// tenantsOfRole returns the Tenant of a reader role. For the role that all admins are
// bound to it returns all Tenants.
func (r *Reconciler) tenantsOfRole(ctx context.Context, o client.Object) []reconcile.Request {
	if _, isRole := o.(*rbacv1.ClusterRole); isRole && o.GetName() == r.Options.AdminClusterRole {
		return r.list(ctx)
	}
	requests := claimedNames(o)
	if name, ok := strings.CutPrefix(o.GetName(), readerNamePrefix); ok {
		requests = append(requests, requestFor(name))
	}
	return requests
}

// tenantsDue returns the Ready Tenants whose periodic reconcile is due.
func (r *Reconciler) tenantsDue(ctx context.Context, _ client.Object) []reconcile.Request {
	var due []reconcile.Request
	now := r.Clock.Now()
	for _, t := range r.tenants(ctx, client.MatchingFields{indexReady: "True"}) {
		last, known := r.lastReconciled.Load(t.Name)
		if !known || !reconciler.NextDue(last.(time.Time), r.Options.SyncPeriod, t.UID).After(now) {
			due = append(due, requestFor(t.Name))
		}
	}
	return due
}

func (r *Reconciler) tenantsUsing(ctx context.Context, namespace string) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{indexNamespaces: namespace})
}

func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	var requests []reconcile.Request
	for _, t := range r.tenants(ctx, opts...) {
		requests = append(requests, requestFor(t.Name))
	}
	return requests
}

// tenants lists Tenants from the cache. It logs an error, since a map function cannot
// return one. The cache fails only while the manager stops.
func (r *Reconciler) tenants(ctx context.Context, opts ...client.ListOption) []v1beta1.Tenant {
	var list v1beta1.TenantList
	if err := r.Client.List(ctx, &list, opts...); err != nil {
		log.FromContext(ctx).Error(err, "listing tenants")
	}
	return list.Items
}

// claimedNames returns the Tenants that an object names by label or owner reference. The
// reconcile then compares UIDs.
func claimedNames(o client.Object) []reconcile.Request {
	var requests []reconcile.Request
	if name := o.GetLabels()[v1beta1.LabelTenant]; name != "" {
		requests = append(requests, requestFor(name))
	}
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == tenantKind.Kind && ref.APIVersion == tenantKind.GroupVersion().String() {
			requests = append(requests, requestFor(ref.Name))
		}
	}
	return requests
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
