package counts

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// adminBinding is the name of the admins' RoleBinding in each namespace.
const adminBinding = "leasehold:tenant-admin"

func newTenant(name string, policy v1beta1.NamespaceDeletionPolicy, suffixes ...v1beta1.NamespaceSuffix) *v1beta1.Tenant {
	return &v1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.TenantSpec{
			Namespaces: suffixes, NamespaceDeletionPolicy: policy,
			Admins: []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "ann"}},
		},
	}
}

// tenants is the life of one Tenant whose namespaces go with it, and the end of
// another whose namespaces stay.
func (p *play) tenants(ctx context.Context) error {
	t := newTenant("acme", v1beta1.NamespaceDelete, "a", "b", "c")
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-a", Name: adminBinding}}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme-b"}}
	kept := newTenant("globex", v1beta1.NamespaceRetain, "a", "b", "c")
	for _, step := range []struct {
		name    string
		changes int
		acts    []func(context.Context) error
	}{
		{"tenant.create", 1, p.create(t)},
		{"tenant.update.admins", 1, p.edit(t, func(t *v1beta1.Tenant) { t.Spec.Admins[0].Name = "ben" })},
		{"tenant.update.add", 1, p.edit(t, func(t *v1beta1.Tenant) { t.Spec.Namespaces = append(t.Spec.Namespaces, "d") })},
		// The names in another order are the same names.
		{"tenant.update.order", 1, p.edit(t, func(t *v1beta1.Tenant) { t.Spec.Namespaces = []v1beta1.NamespaceSuffix{"d", "c", "b", "a"} })},
		{"tenant.update.label", 1, p.edit(t, func(t *v1beta1.Tenant) { t.Labels = map[string]string{"example.com/a": "b"} })},
		// Of what goes, the namespace is emptied and finalized by two writes of others.
		{"tenant.update.drop", 3, []func(context.Context) error{
			func(ctx context.Context) error {
				return change(ctx, p.stage.Client, t, func(t *v1beta1.Tenant) { t.Spec.Namespaces = []v1beta1.NamespaceSuffix{"a", "b", "c"} })
			},
			p.empty("acme-d"), p.tenantReady(t),
		}},
		{"tenant.drift.binding", 1, []func(context.Context) error{func(ctx context.Context) error {
			return change(ctx, p.stage.Client, binding, func(b *rbacv1.RoleBinding) { b.Subjects = nil })
		}}},
		{"tenant.drift.deleted", 1, []func(context.Context) error{func(ctx context.Context) error { return p.remove(ctx, binding) }}},
		{"tenant.drift.marks", 1, []func(context.Context) error{func(ctx context.Context) error {
			return change(ctx, p.stage.Client, space, func(n *corev1.Namespace) { n.Labels, n.OwnerReferences = nil, nil })
		}}},
		{"tenant.delete", 7, []func(context.Context) error{
			func(ctx context.Context) error { return p.remove(ctx, t) },
			p.empty("acme-a"), p.empty("acme-b"), p.empty("acme-c"),
			func(ctx context.Context) error { return p.gone(ctx, t) },
		}},
		{"tenant.create.retain", 1, p.create(kept)},
		{"tenant.delete.retain", 1, []func(context.Context) error{func(ctx context.Context) error {
			if err := p.remove(ctx, kept); err != nil {
				return err
			}
			return p.gone(ctx, kept)
		}}},
	} {
		if err := p.phase(ctx, step.name, step.changes, step.acts...); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) tenantReady(t *v1beta1.Tenant) func(context.Context) error {
	return func(ctx context.Context) error {
		return p.ready(ctx, t, func() (int64, []metav1.Condition) { return t.Status.ObservedGeneration, t.Status.Conditions })
	}
}

func (p *play) create(t *v1beta1.Tenant) []func(context.Context) error {
	return []func(context.Context) error{func(ctx context.Context) error {
		if err := p.stage.Client.Create(ctx, t); err != nil {
			return fmt.Errorf("creating %s: %w", t.Name, err)
		}
		return p.tenantReady(t)(ctx)
	}}
}

func (p *play) edit(t *v1beta1.Tenant, f func(*v1beta1.Tenant)) []func(context.Context) error {
	return []func(context.Context) error{func(ctx context.Context) error {
		if err := change(ctx, p.stage.Client, t, f); err != nil {
			return err
		}
		return p.tenantReady(t)(ctx)
	}}
}

// empty plays the namespace controller once a namespace is being deleted: what the
// operator has made in it goes, and after a rest the namespace.
func (p *play) empty(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := p.await(ctx, name+" to be deleted", func(ctx context.Context) error {
			if err := p.stage.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns); err != nil {
				return err
			}
			if ns.DeletionTimestamp.IsZero() {
				return fmt.Errorf("nobody has asked for it")
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := p.rest(ctx); err != nil {
			return err
		}
		if err := p.remove(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: adminBinding}}); err != nil {
			return err
		}
		if err := p.rest(ctx); err != nil {
			return err
		}
		if err := p.stage.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns); err != nil {
			return fmt.Errorf("reading namespace %s: %w", name, err)
		}
		ns.Spec.Finalizers = nil
		if err := p.stage.Client.SubResource("finalize").Update(ctx, ns); err != nil {
			return fmt.Errorf("finalizing namespace %s: %w", name, err)
		}
		return nil
	}
}
