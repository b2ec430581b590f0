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

// observation is all that one reconcile has read; the decision reads
// nothing else.
type observation struct {
	tenant *v1beta1.Tenant
	// before is the Tenant's status as it was read.
	before v1beta1.TenantStatus
	// namespaces that exist, by name, among those the spec or the status names.
	namespaces map[string]*corev1.Namespace
	// bindings are the admins' RoleBindings, by namespace, under our name.
	bindings map[string]*rbacv1.RoleBinding
	// holders are the UIDs of other living Tenants that ask for or hold a namespace, by
	// its name; only of Tenants that its binding in bindings claims.
	holders map[string]map[types.UID]bool
	// marked are all RoleBindings that carry the Tenant's UID, wherever they are.
	marked []*rbacv1.RoleBinding
	// foreign namespaces claim to be the Tenant's and are in neither spec nor status.
	foreign []*corev1.Namespace
	// reader and readerBinding let the admins read their Tenant; nil if absent.
	reader        *rbacv1.ClusterRole
	readerBinding *rbacv1.ClusterRoleBinding
	// missingAdminRole is the ClusterRole of the admins' bindings if it does not exist, or "".
	missingAdminRole string
}

// observe reads the world, from the cache where being late does no harm, or has not
// done any lately.
func (r *Reconciler) observe(ctx context.Context, t *v1beta1.Tenant) (*observation, error) {
	o := &observation{
		tenant:     t,
		before:     *t.Status.DeepCopy(),
		namespaces: map[string]*corev1.Namespace{},
		bindings:   map[string]*rbacv1.RoleBinding{},
		holders:    map[string]map[types.UID]bool{},
	}
	reader := r.own.Reader(client.ObjectKeyFromObject(t), r.Client, r.Live)
	for _, step := range []func(context.Context, client.Reader, *observation) error{
		r.observeNamespaces, // first: the others look only into these
		r.observeBindings,
		r.observeHolders, // after the bindings: only their claims matter
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
	wanted, listed, held := wantedNames(o.tenant, refused), listedNames(o.tenant), heldSet(o.tenant)
	for _, name := range heldNames(o.tenant) {
		// A wanted namespace that the cache does not show yet is created under the
		// precondition that it does not exist. Two things cannot be taken back, so a
		// stale cache must not decide them: to forget a name that is not wanted, and
		// to declare one anew, which drops the UID that proves whose it is. What the
		// status does not list was never made, or is forgotten already: names are
		// declared before they are created.
		uid, isListed := listed[name]
		ns, err := reconciler.Get(ctx, reader, client.ObjectKey{Name: name}, &corev1.Namespace{})
		forgets := !wanted[name] && (ns == nil || !ownsNamespace(o.tenant, held, ns))
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
	var list rbacv1.RoleBindingList
	if err := reader.List(ctx, &list, client.MatchingFields{indexClaims: string(o.tenant.UID)}); err != nil {
		return fmt.Errorf("listing role bindings of the tenant: %w", err)
	}
	for i := range list.Items {
		o.marked = append(o.marked, &list.Items[i])
	}
	return nil
}

// observeHolders finds the other Tenants that a binding in one of the namespaces
// claims and that have a part in that namespace. Each is read from the API server:
// a stale cache must not keep rights alive for a Tenant that is gone. A Tenant that
// the cache does not show yet is missed, and its claim does not count.
func (r *Reconciler) observeHolders(ctx context.Context, reader client.Reader, o *observation) error {
	for name, binding := range o.bindings {
		claimed := foreignClaims(o.tenant, binding)
		if len(claimed) == 0 {
			continue
		}
		var list v1beta1.TenantList
		if err := reader.List(ctx, &list, client.MatchingFields{indexHolds: name}); err != nil {
			return fmt.Errorf("listing tenants that hold namespace %s: %w", name, err)
		}
		o.holders[name] = map[types.UID]bool{}
		for _, other := range list.Items {
			if !slices.Contains(claimed, other.UID) {
				continue
			}
			live, err := reconciler.Get(ctx, r.Live, client.ObjectKeyFromObject(&other), &v1beta1.Tenant{})
			if err != nil {
				return fmt.Errorf("reading tenant %s: %w", other.Name, err)
			}
			o.holders[name][other.UID] = live != nil && live.UID == other.UID && slices.Contains(heldNames(live), name)
		}
	}
	return nil
}

// observeForeign finds namespaces that claim the Tenant without being listed.
// Each is read again from the API server: right after a namespace was released,
// a late cache still shows the marks that are gone.
func (r *Reconciler) observeForeign(ctx context.Context, reader client.Reader, o *observation) error {
	var list corev1.NamespaceList
	if err := reader.List(ctx, &list, client.MatchingFields{indexClaims: string(o.tenant.UID)}); err != nil {
		return fmt.Errorf("listing namespaces that claim the tenant: %w", err)
	}
	held := heldNames(o.tenant)
	for i := range list.Items {
		name := list.Items[i].Name
		if slices.Contains(held, name) {
			continue
		}
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

// wantedNames are the full names that must exist, without those that are refused:
// none once the Tenant is being deleted.
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
