package tenant

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// maxForeign bounds the requests of one reconcile for foreign namespaces with metadata of the
// Tenant. A message names five.
const maxForeign = 10

// observation holds everything that one reconcile has read. It is the only input of the
// decision.
type observation struct {
	tenant *v1beta1.Tenant
	// contested is true if the reconcile before ended with a Conflict, so this one reads the
	// Tenant's objects from the API server. A Conflict now is no effect of a stale cache.
	contested bool
	// before is the Tenant's status as it was read.
	before v1beta1.TenantStatus
	// namespaces holds, by name, the existing namespaces of the spec and the status.
	namespaces map[string]*corev1.Namespace
	// bindings holds, by namespace, the RoleBindings named adminBindingName.
	bindings map[string]*rbacv1.RoleBinding
	// otherTenants holds, by namespace, the UIDs of other existing Tenants that name the
	// namespace in their spec or status. It has only UIDs that the admins' binding carries.
	otherTenants map[string]map[types.UID]bool
	// foreign are namespaces that carry the Tenant's UID and are in neither spec nor status.
	foreign []*corev1.Namespace
	// reader and readerBinding allow the admins to read their Tenant; nil if absent.
	reader        *rbacv1.ClusterRole
	readerBinding *rbacv1.ClusterRoleBinding
	// missingAdminRole is the name of the admins' ClusterRole if it does not exist, or "".
	missingAdminRole string
}

// observe reads the objects of the Tenant. It reads from the cache unless the cache lags
// behind the operator's own writes, or a stale read could cause an irreversible decision.
func (r *Reconciler) observe(ctx context.Context, t *v1beta1.Tenant) (*observation, error) {
	o := &observation{
		tenant:       t,
		contested:    r.own.Suspected(client.ObjectKeyFromObject(t)),
		before:       *t.Status.DeepCopy(),
		namespaces:   map[string]*corev1.Namespace{},
		bindings:     map[string]*rbacv1.RoleBinding{},
		otherTenants: map[string]map[types.UID]bool{},
	}
	reader := r.own.Reader(client.ObjectKeyFromObject(t), r.Client, r.Live)
	for _, step := range []func(context.Context, client.Reader, *observation) error{
		r.observeNamespaces, // first: the next step reads only in these
		r.observeBindings,
		r.observeOtherTenants, // after the bindings: it reads only Tenants that these claim
		r.observeForeign,
		r.observeRoles,
	} {
		if err := step(ctx, reader, o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (r *Reconciler) observeNamespaces(ctx context.Context, reader client.Reader, o *observation) error {
	refused, _ := refusedNames(o.tenant, r.Options.OperatorNamespace)
	wanted, listed, used := wantedNames(o.tenant, refused), recordedUIDs(o.tenant), usedNameSet(o.tenant)
	for _, name := range usedNames(o.tenant) {
		// A stale cache does no harm to a wanted namespace, since a creation requires that
		// it does not exist. Two decisions cannot be undone and need a live read. One drops
		// an unwanted name from the status. The other declares a name again, which drops
		// the UID that proves the ownership. Names are declared before their namespaces are
		// created, so a name that is not in the status has no owned namespace.
		uid, isListed := listed[name]
		ns, err := reconciler.Get(ctx, reader, client.ObjectKey{Name: name}, &corev1.Namespace{})
		forgets := !wanted[name] && (ns == nil || !ownsNamespace(o.tenant, used, ns))
		if err == nil && isListed && (forgets || ns == nil && uid != "") {
			ns, err = reconciler.Get(ctx, r.Live, client.ObjectKey{Name: name}, &corev1.Namespace{})
		}
		if err != nil {
			return fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if ns != nil {
			o.namespaces[name] = ns
		}
	}
	return nil
}

func (r *Reconciler) observeBindings(ctx context.Context, reader client.Reader, o *observation) error {
	for name := range o.namespaces {
		key := client.ObjectKey{Namespace: name, Name: adminBindingName}
		binding, err := reconciler.Get(ctx, reader, key, &rbacv1.RoleBinding{})
		if err != nil {
			return fmt.Errorf("reading role binding %s: %w", key, err)
		}
		if binding != nil {
			o.bindings[name] = binding
		}
	}
	return nil
}

// observeOtherTenants finds other Tenants that a binding in one of the namespaces claims.
func (r *Reconciler) observeOtherTenants(ctx context.Context, reader client.Reader, o *observation) error {
	for name, binding := range o.bindings {
		others, err := r.otherTenants(ctx, reader, o.tenant, binding)
		if err != nil {
			return err
		}
		o.otherTenants[name] = others
	}
	return nil
}

// otherTenants returns the UIDs of other Tenants that a binding claims and that name its
// namespace. It reads each from the API server, since a stale cache must not retain rights
// for a deleted Tenant. It misses a Tenant that the cache does not show yet, so the claim of
// that Tenant does not count.
func (r *Reconciler) otherTenants(ctx context.Context, reader client.Reader, t *v1beta1.Tenant,
	binding *rbacv1.RoleBinding) (map[types.UID]bool, error) {
	claimed := foreignClaims(t, binding)
	if len(claimed) == 0 {
		return nil, nil
	}
	name, others := binding.Namespace, map[types.UID]bool{}
	var list v1beta1.TenantList
	if err := reader.List(ctx, &list, client.MatchingFields{indexNamespaces: name}); err != nil {
		return nil, fmt.Errorf("listing tenants that hold namespace %s: %w", name, err)
	}
	for _, other := range list.Items {
		if !slices.Contains(claimed, other.UID) {
			continue
		}
		live, err := reconciler.Get(ctx, r.Live, client.ObjectKeyFromObject(&other), &v1beta1.Tenant{})
		if err != nil {
			return nil, fmt.Errorf("reading tenant %s: %w", other.Name, err)
		}
		others[other.UID] = live != nil && live.UID == other.UID && slices.Contains(usedNames(live), name)
	}
	return others, nil
}

// observeForeign finds namespaces that claim the Tenant and are in neither spec nor
// status. It reads each again from the API server, since a stale cache still shows the
// ownership labels of a released namespace. It reads at most maxForeign, those with an owner
// reference first. Each that loses its reference triggers the next reconcile.
func (r *Reconciler) observeForeign(ctx context.Context, reader client.Reader, o *observation) error {
	var list corev1.NamespaceList
	if err := reader.List(ctx, &list, client.MatchingFields{indexClaims: string(o.tenant.UID)}); err != nil {
		return fmt.Errorf("listing namespaces that claim the tenant: %w", err)
	}
	used := usedNameSet(o.tenant)
	candidates := slices.DeleteFunc(list.Items, func(ns corev1.Namespace) bool { return used[ns.Name] })
	slices.SortStableFunc(candidates, func(a, b corev1.Namespace) int {
		return min(ownerIndex(o.tenant, &b), 0) - min(ownerIndex(o.tenant, &a), 0)
	})
	for i := range candidates[:min(len(candidates), maxForeign)] {
		name := candidates[i].Name
		ns, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if err != nil {
			return fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if ns != nil && claimsTenant(o.tenant.UID, ns) {
			o.foreign = append(o.foreign, ns)
		}
	}
	return nil
}

func (r *Reconciler) observeRoles(ctx context.Context, reader client.Reader, o *observation) error {
	var err error
	key := client.ObjectKey{Name: readerNamePrefix + o.tenant.Name}
	if o.reader, err = reconciler.Get(ctx, reader, key, &rbacv1.ClusterRole{}); err != nil {
		return fmt.Errorf("reading cluster role %s: %w", key.Name, err)
	}
	if o.readerBinding, err = reconciler.Get(ctx, reader, key, &rbacv1.ClusterRoleBinding{}); err != nil {
		return fmt.Errorf("reading cluster role binding %s: %w", key.Name, err)
	}
	role, err := reconciler.Get(ctx, reader, client.ObjectKey{Name: r.Options.AdminClusterRole}, &rbacv1.ClusterRole{})
	if err != nil {
		return fmt.Errorf("reading cluster role %s: %w", r.Options.AdminClusterRole, err)
	}
	if role == nil {
		o.missingAdminRole = r.Options.AdminClusterRole
	}
	return nil
}

// wantedNames returns the full names of the spec; the value is false for refused names.
// It is empty for a terminating Tenant.
func wantedNames(t *v1beta1.Tenant, refused map[string]bool) map[string]bool {
	wanted := map[string]bool{}
	if !t.DeletionTimestamp.IsZero() {
		return wanted
	}
	for _, name := range namespaceNames(t) {
		wanted[name] = !refused[name]
	}
	return wanted
}
