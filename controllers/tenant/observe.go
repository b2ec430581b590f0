// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// observation holds everything that one reconcile has read. It is the only input of the decision.
type observation struct {
	tenant     *v1beta1.Tenant
	before     v1beta1.TenantStatus           // as it was read
	namespaces map[string]*corev1.Namespace   // those of spec and status that exist, by name
	bindings   map[string]*rbacv1.RoleBinding // those named adminBindingName, by namespace
	// wanted maps each namespace name of the spec to whether it is allowed; invalid has an error for each name that is
	// not. Both are empty while the Tenant is being deleted.
	wanted  map[string]bool
	invalid field.ErrorList
	// reader and readerBinding allow the admins to read their Tenant; nil if absent.
	reader        *rbacv1.ClusterRole
	readerBinding *rbacv1.ClusterRoleBinding
	// missingAdminRole is the name of the admins' ClusterRole if it does not exist, or "".
	missingAdminRole string
}

// newObservation returns what the Tenant itself shows.
func newObservation(t *v1beta1.Tenant, options Options) *observation {
	o := &observation{tenant: t, before: *t.Status.DeepCopy(),
		namespaces: map[string]*corev1.Namespace{}, bindings: map[string]*rbacv1.RoleBinding{}}
	if t.DeletionTimestamp.IsZero() {
		o.wanted, o.invalid = wantedNames(t, options)
	}
	return o
}

func (o *observation) deleting() bool { return !o.tenant.DeletionTimestamp.IsZero() }

// observe reads the objects of the Tenant. The cache has at least the operator's own writes. Act reads only to
// verify that the Tenant is as it was read, and that what it has removed is gone.
func (r *Reconciler) observe(ctx context.Context, t *v1beta1.Tenant) (*observation, error) {
	o := newObservation(t, r.Options)
	if err := r.observeNamespaces(ctx, o); err != nil {
		return nil, err
	}
	return o, r.observeRoles(ctx, o)
}

// observeNamespaces reads the namespaces of spec and status, and the admins' bindings in them.
//
// A stale cache does no harm to a wanted namespace, since a creation requires that it does not exist. Two
// kinds of recorded names are read live: those that the plan deletes, releases or forgets, and does not only
// wait for; and a wanted one that is missing, whose new declaration drops the UID that proves the ownership.
// A terminating Tenant has all names read live: an administrator may just have handed a namespace over.
func (r *Reconciler) observeNamespaces(ctx context.Context, o *observation) error {
	status := recorded(o.tenant)
	for _, name := range usedNames(o.tenant) {
		ns, err := reconciler.Get(ctx, r.Client, client.ObjectKey{Name: name}, &corev1.Namespace{})
		was, isRecorded := status[name]
		leaves := !o.wanted[name] && (ns == nil || ns.DeletionTimestamp.IsZero() || annotatedUID(ns) != o.tenant.UID)
		if err == nil && (isRecorded || o.deleting()) && (leaves || ns == nil && was.UID != "") {
			ns, err = reconciler.Get(ctx, r.Live, client.ObjectKey{Name: name}, &corev1.Namespace{})
		}
		if err != nil {
			return fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if ns == nil {
			continue
		}
		o.namespaces[name] = ns
		key := client.ObjectKey{Namespace: name, Name: adminBindingName}
		binding, err := reconciler.Get(ctx, r.Client, key, &rbacv1.RoleBinding{})
		if err != nil {
			return fmt.Errorf("reading role binding %s: %w", key, err)
		}
		if binding != nil {
			o.bindings[name] = binding
		}
	}
	return nil
}

func (r *Reconciler) observeRoles(ctx context.Context, o *observation) error {
	var err error
	key := client.ObjectKey{Name: readerNamePrefix + o.tenant.Name}
	if o.reader, err = reconciler.Get(ctx, r.Client, key, &rbacv1.ClusterRole{}); err != nil {
		return fmt.Errorf("reading cluster role %s: %w", key.Name, err)
	}
	if o.readerBinding, err = reconciler.Get(ctx, r.Client, key, &rbacv1.ClusterRoleBinding{}); err != nil {
		return fmt.Errorf("reading cluster role binding %s: %w", key.Name, err)
	}
	key.Name = r.Options.AdminClusterRole
	role, err := reconciler.Get(ctx, r.Client, key, &rbacv1.ClusterRole{})
	if err != nil {
		return fmt.Errorf("reading cluster role %s: %w", key.Name, err)
	}
	if role == nil {
		o.missingAdminRole = key.Name
	}
	return nil
}
