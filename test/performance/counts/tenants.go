package counts

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// adminBinding is the name of the admins' RoleBinding in each namespace.
const adminBinding = "leasehold:tenant-admin"

type suffixes = []v1beta1.NamespaceSuffix

func newTenant(name string, policy v1beta1.NamespaceDeletionPolicy, names suffixes) *v1beta1.Tenant {
	return &v1beta1.Tenant{ObjectMeta: named("", name), Spec: v1beta1.TenantSpec{
		Namespaces: names, NamespaceDeletionPolicy: policy,
		Admins: []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "ann"}},
	}}
}

// tenants is the life of one Tenant whose namespaces go with it, and of another
// whose namespaces stay.
func (p *play) tenants(ctx context.Context) error {
	t := newTenant("acme", v1beta1.NamespaceDelete, suffixes{"a", "b", "c"})
	kept := newTenant("globex", v1beta1.NamespaceRetain, suffixes{"a", "b", "c"})
	binding := &rbacv1.RoleBinding{ObjectMeta: named("acme-a", adminBinding)}
	space := &corev1.Namespace{ObjectMeta: named("", "acme-b")}
	edit := func(f func(*v1beta1.TenantSpec)) act {
		return changing(p, t, func(t *v1beta1.Tenant) { f(&t.Spec) })
	}
	return p.play(ctx, []phase{
		{"tenant.create", 1, []act{p.createReady(t)}},
		{"tenant.update.admins", 1, []act{then(edit(func(s *v1beta1.TenantSpec) { s.Admins[0].Name = "ben" }), p.ready(t))}},
		{"tenant.update.add", 1, []act{then(edit(func(s *v1beta1.TenantSpec) { s.Namespaces = append(s.Namespaces, "d") }), p.ready(t))}},
		// The names in another order are the same names.
		{"tenant.update.order", 1, []act{then(edit(func(s *v1beta1.TenantSpec) { s.Namespaces = suffixes{"d", "c", "b", "a"} }), p.ready(t))}},
		{"tenant.update.label", 1, []act{changing(p, t, func(t *v1beta1.Tenant) { t.Labels = map[string]string{"example.com/a": "b"} })}},
		{"tenant.update.drop", 3, []act{
			edit(func(s *v1beta1.TenantSpec) { s.Namespaces = suffixes{"a", "b", "c"} }),
			p.emptied("acme-d"), then(p.finalized("acme-d"), p.ready(t)),
		}},
		{"tenant.drift.binding", 1, []act{changing(p, binding, func(b *rbacv1.RoleBinding) { b.Subjects = nil })}},
		{"tenant.drift.deleted", 1, []act{p.remove(binding)}},
		{"tenant.drift.marks", 1, []act{changing(p, space, func(n *corev1.Namespace) { n.Labels, n.OwnerReferences = nil, nil })}},
		{"tenant.delete", 7, []act{
			p.remove(t), p.emptied("acme-a", "acme-b", "acme-c"),
			p.finalized("acme-a"), p.finalized("acme-b"), then(p.finalized("acme-c"), p.gone(t)),
		}},
		{"tenant.create.retain", 1, []act{p.createReady(kept)}},
		{"tenant.delete.retain", 1, []act{p.removeGone(kept)}},
	})
}

// emptied and finalized play the namespace controller: what the operator has made in
// namespaces that are being deleted goes, and then one after another of them.
func (p *play) emptied(names ...string) act {
	return func(ctx context.Context) error {
		for _, name := range names {
			if err := p.remove(&rbacv1.RoleBinding{ObjectMeta: named(name, adminBinding)})(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func (p *play) finalized(name string) act {
	return func(ctx context.Context) error {
		ns := &corev1.Namespace{}
		if err := p.stage.Client.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
			return fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if ns.DeletionTimestamp.IsZero() {
			return fmt.Errorf("the operator has come to rest without having deleted namespace %s", name)
		}
		ns.Spec.Finalizers = nil
		if err := p.stage.Client.SubResource("finalize").Update(ctx, ns); err != nil {
			return fmt.Errorf("finalizing namespace %s: %w", name, err)
		}
		return nil
	}
}
