package tenant

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/notes"
)

// ensureBinding gives the admins their rights in one namespace of the Tenant.
func (r *Reconciler) ensureBinding(ctx context.Context, o *observation, namespace string, live *rbacv1.RoleBinding, res *result) error {
	// A binding to a role that does not exist grants nothing and would hide
	// that the role is missing.
	if !o.adminRoleExists {
		return nil
	}
	t, want, roleRef := o.tenant, childMarks(o.tenant), clusterRoleRef(r.Options.AdminClusterRole)
	if live != nil {
		if !ownsBinding(t, live) {
			return foreignError{"role binding", namespace + "/" + live.Name}
		}
		if live.RoleRef == roleRef && equality.Semantic.DeepEqual(live.Subjects, subjects(t)) && want.on(live) {
			return nil
		}
		if live.RoleRef != roleRef { // immutable: it has to be made anew
			if err := r.deleteChild(ctx, res, live); err != nil {
				return err
			}
			live = nil
		}
	}
	desired := rbacv1ac.RoleBinding(adminBindingName, namespace).
		WithLabels(want.labels).WithAnnotations(want.annotations).WithOwnerReferences(want.ownerConfig()...).
		WithRoleRef(roleRefConfig(r.Options.AdminClusterRole)).WithSubjects(subjectConfigs(t)...)
	if err := r.applyChild(ctx, desired, live); err != nil {
		return err
	}
	res.wrote = true
	if settled(o, namespace) {
		res.events = append(res.events, about(notes.Warning(v1beta1.EventAdminBindingRepaired, "Repair",
			"role binding %s/%s had been changed and was put back", namespace, adminBindingName), namespace))
	}
	return nil
}

// settled: the namespace and its binding were right when this spec was last
// looked at, so that a difference now is somebody else's doing.
func settled(o *observation, namespace string) bool {
	return o.before.ObservedGeneration == o.tenant.Generation &&
		slices.ContainsFunc(o.before.Namespaces, func(ns v1beta1.TenantNamespace) bool {
			return ns.Name == namespace && ns.Reason == v1beta1.ReasonReconciled
		})
}

func (r *Reconciler) applyChild(ctx context.Context, desired *rbacv1ac.RoleBindingApplyConfiguration, live *rbacv1.RoleBinding) error {
	if live == nil {
		return apply.Create(ctx, r.Client, desired)
	}
	return apply.Update(ctx, r.Client, live, desired)
}

// ensureReader lets the admins read their own Tenant, by a ClusterRole and a
// ClusterRoleBinding of the same name.
func (r *Reconciler) ensureReader(ctx context.Context, o *observation, res *result) error {
	t, want, name := o.tenant, childMarks(o.tenant), readerNamePrefix+o.tenant.Name
	role := rbacv1ac.ClusterRole(name).
		WithLabels(want.labels).WithAnnotations(want.annotations).WithOwnerReferences(want.ownerConfig()...).
		WithRules(rbacv1ac.PolicyRule().WithAPIGroups(v1beta1.GroupVersion.Group).WithResources("tenants").
			WithResourceNames(t.Name).WithVerbs("get"))
	err := ensureClusterChild(ctx, r, res, t, "cluster role", o.reader, role, func(live *rbacv1.ClusterRole) bool {
		return want.on(live) && equality.Semantic.DeepEqual(live.Rules, readerRules(t))
	})
	if err != nil {
		return err
	}
	binding := rbacv1ac.ClusterRoleBinding(name).
		WithLabels(want.labels).WithAnnotations(want.annotations).WithOwnerReferences(want.ownerConfig()...).
		WithRoleRef(roleRefConfig(name)).WithSubjects(subjectConfigs(t)...)
	live := o.readerBinding
	if live != nil && ownsChild(t, live) && live.RoleRef != clusterRoleRef(name) {
		if err := r.deleteChild(ctx, res, live); err != nil {
			return err
		}
		live = nil
	}
	return ensureClusterChild(ctx, r, res, t, "cluster role binding", live, binding, func(live *rbacv1.ClusterRoleBinding) bool {
		return want.on(live) && equality.Semantic.DeepEqual(live.Subjects, subjects(t))
	})
}

// ensureClusterChild creates or mends a cluster-scoped child that is the
// Tenant's, and refuses to touch one that is not.
func ensureClusterChild[L interface {
	metav1.Object
	comparable
}, D apply.Configuration[D]](ctx context.Context, r *Reconciler, res *result, t *v1beta1.Tenant, kind string, live L, desired D, right func(L) bool) error {
	var none L
	var err error
	switch {
	case live == none:
		err = apply.Create(ctx, r.Client, desired)
	case !ownsChild(t, live):
		return foreignError{kind, live.GetName()}
	case right(live):
		return nil
	default:
		err = apply.Update(ctx, r.Client, live, desired)
	}
	if err != nil {
		return err
	}
	res.wrote = true
	return nil
}

func clusterRoleRef(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}
