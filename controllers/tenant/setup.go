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

// Options are what the operator's flags say about Tenants.
type Options struct {
	// AdminClusterRole is bound to the admins in each namespace. The operator
	// needs the verb bind on it, by name.
	AdminClusterRole string
	// PodSecurityLevel is enforced in each namespace; "" sets none.
	PodSecurityLevel string
	// OperatorNamespace can never become a Tenant's.
	OperatorNamespace string
	// MaxConcurrentReconciles is how many Tenants are worked on at once.
	MaxConcurrentReconciles int
	// SyncPeriod is how often a Ready Tenant is looked at though nothing changed.
	SyncPeriod time.Duration
	// Ticks wake the periodic look; nil turns it off.
	Ticks <-chan event.GenericEvent
	// NewQueue makes the work queue, so that its progress can be watched; nil is
	// the default queue.
	NewQueue reconciler.NewQueue
	// Clock is the time; nil is the real one.
	Clock clock.PassiveClock
}

// WatchedObjects are what the controller watches; it knows the world only once
// their informers have synced.
func WatchedObjects() []client.Object {
	return []client.Object{
		&v1beta1.Tenant{}, &corev1.Namespace{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{},
	}
}

// New makes a Reconciler that works through the manager's client.
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

// deletion passes the end of an object.
var deletion = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// finalizerLost lets a Tenant through that somebody took our finalizer off.
var finalizerLost = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return slices.Contains(e.ObjectOld.GetFinalizers(), v1beta1.TenantFinalizer) &&
			!slices.Contains(e.ObjectNew.GetFinalizers(), v1beta1.TenantFinalizer)
	},
}

// tenantsSharing returns the Tenants that ask for or hold a namespace of a Tenant that
// is gone: its claims there do not count any more.
func (r *Reconciler) tenantsSharing(ctx context.Context, o client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range heldNames(o.(*v1beta1.Tenant)) {
		requests = append(requests, r.tenantsHolding(ctx, name)...)
	}
	return requests
}

// tenantsOfNamespace: those that hold or ask for it, and those it claims.
func (r *Reconciler) tenantsOfNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return append(r.tenantsHolding(ctx, o.GetName()), claimedNames(o)...)
}

// tenantsOfBinding: those it claims, and, as its name is reserved for us there,
// those that hold its namespace.
func (r *Reconciler) tenantsOfBinding(ctx context.Context, o client.Object) []reconcile.Request {
	requests := claimedNames(o)
	if o.GetName() == adminBindingName {
		requests = append(requests, r.tenantsHolding(ctx, o.GetNamespace())...)
	}
	return requests
}

// tenantsOfRole: the one whose admins it lets read, or all of them when it is
// the role that all admins are bound to.
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

// tenantsDue are the Ready Tenants whose periodic look is due.
func (r *Reconciler) tenantsDue(ctx context.Context, _ client.Object) []reconcile.Request {
	var due []reconcile.Request
	now := r.Clock.Now()
	for _, t := range r.tenants(ctx, client.MatchingFields{indexReady: "True"}) {
		last, known := r.looks.Load(t.Name)
		if !known || !reconciler.NextDue(last.(time.Time), r.Options.SyncPeriod, t.UID).After(now) {
			due = append(due, requestFor(t.Name))
		}
	}
	return due
}

func (r *Reconciler) tenantsHolding(ctx context.Context, namespace string) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{indexHolds: namespace})
}

func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	var requests []reconcile.Request
	for _, t := range r.tenants(ctx, opts...) {
		requests = append(requests, requestFor(t.Name))
	}
	return requests
}

// tenants lists from the cache. A map function cannot return an error, and the
// cache fails only while it is being stopped.
func (r *Reconciler) tenants(ctx context.Context, opts ...client.ListOption) []v1beta1.Tenant {
	var list v1beta1.TenantList
	if err := r.Client.List(ctx, &list, opts...); err != nil {
		log.FromContext(ctx).Error(err, "listing tenants")
	}
	return list.Items
}

// claimedNames are the Tenants an object names by label or owner reference.
// Only names: whether the claim is true is decided on UIDs in the reconcile.
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
