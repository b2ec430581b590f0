// SPDX-License-Identifier: Apache-2.0

package counts_test

import (
	"context"

	. "github.com/onsi/gomega"
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

// countTenants counts the life cycle of a Tenant whose namespaces are deleted with it, and of one
// whose namespaces are retained.
func (c *counter) countTenants(ctx context.Context) {
	t := newTenant("acme", v1beta1.NamespaceDelete, suffixes{"a", "b", "c"})
	retained := newTenant("globex", v1beta1.NamespaceRetain, suffixes{"a", "b", "c"})
	binding := &rbacv1.RoleBinding{ObjectMeta: named("acme-a", adminBinding)}
	namespace := &corev1.Namespace{ObjectMeta: named("", "acme-b")}
	edit := func(f func(*v1beta1.TenantSpec)) step {
		return change(t, func(t *v1beta1.Tenant) { f(&t.Spec) })
	}
	const created = "3 namespaces, 3 role bindings, cluster role and binding of the reader; the finalizer; " +
		"2 statuses: the names before they are created, and the result"
	c.count(ctx,
		phase{"tenant.create", created, []step{then(create(t), ready(t))}},
		phase{"tenant.update.admins", "3 role bindings, the reader's cluster role binding; the status",
			[]step{then(edit(func(s *v1beta1.TenantSpec) { s.Admins[0].Name = "ben" }), ready(t))}},
		phase{"tenant.update.add", "namespace, role binding; 2 statuses",
			[]step{then(edit(func(s *v1beta1.TenantSpec) { s.Namespaces = append(s.Namespaces, "d") }), ready(t))}},
		phase{"tenant.update.order", "the status, for the generation that was observed",
			[]step{then(edit(func(s *v1beta1.TenantSpec) { s.Namespaces = suffixes{"d", "c", "b", "a"} }), ready(t))}},
		phase{"tenant.update.label", "nothing",
			[]step{change(t, func(t *v1beta1.Tenant) { t.Labels = map[string]string{"example.com/a": "b"} })}},
		phase{"tenant.update.drop", "the namespace is deleted, and read before that and after; 2 statuses: Terminating, gone", []step{
			edit(func(s *v1beta1.TenantSpec) { s.Namespaces = suffixes{"a", "b", "c"} }),
			empty("acme-d"), then(finalize("acme-d"), ready(t)),
		}},
		phase{"tenant.drift.binding", "the role binding; the status, which names it",
			[]step{change(binding, func(b *rbacv1.RoleBinding) { b.Subjects = nil })}},
		phase{"tenant.drift.deleted", "the role binding; the status names it already", []step{remove(binding)}},
		phase{"tenant.drift.labels", "the namespace; the status, which names the fields",
			[]step{change(namespace, func(n *corev1.Namespace) { n.Labels, n.OwnerReferences = nil, nil })}},
		phase{"tenant.delete", "3 namespaces, each read before and after; 3 statuses, one for each state that a user can see; " +
			"the reader's cluster role and binding; the finalizer", []step{
			remove(t), empty("acme-a", "acme-b", "acme-c"),
			finalize("acme-a"), finalize("acme-b"), then(finalize("acme-c"), gone(t)),
		}},
		phase{"tenant.create.retain", created, []step{then(create(retained), ready(retained))}},
		phase{"tenant.delete.retain", "3 role bindings, each read after; 3 namespaces, each read before their ownership labels go; the reader's cluster " +
			"role and binding; the finalizer",
			[]step{then(remove(retained), gone(retained))}},
	)
}

// empty and finalize replace the namespace controller.
func empty(names ...string) step {
	return func(ctx context.Context) {
		for _, name := range names {
			remove(&rbacv1.RoleBinding{ObjectMeta: named(name, adminBinding)})(ctx)
		}
	}
}

func finalize(name string) step {
	return func(ctx context.Context) {
		namespace := &corev1.Namespace{}
		Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, namespace)).To(Succeed())
		Expect(namespace.DeletionTimestamp).NotTo(BeNil(), "the operator has not deleted namespace %s", name)
		namespace.Spec.Finalizers = nil
		Expect(k8s.SubResource("finalize").Update(ctx, namespace)).To(Succeed())
	}
}
