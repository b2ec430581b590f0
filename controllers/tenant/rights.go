package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/denial"
	"leasehold.dev/controllers/internal/reporting"
)

// ensureBinding gives the admins their rights in one namespace of the Tenant.
func (r *Reconciler) ensureBinding(ctx context.Context, o *observation, namespace string, live *rbacv1.RoleBinding, res *result) error {
	// A binding to a role that does not exist grants nothing and would hide
	// that the role is missing.
	if o.missingAdminRole != "" {
		return r.restrictBinding(ctx, o, live, res)
	}
	t, want, roleRef := o.tenant, childMarks(o.tenant), clusterRoleRef(r.Options.AdminClusterRole)
	desired := rbacv1ac.RoleBinding(adminBindingName, namespace).
		WithLabels(want.labels).WithAnnotations(want.annotations).WithOwnerReferences(want.ownerConfig()...).
		WithRoleRef(roleRefConfig(r.Options.AdminClusterRole)).WithSubjects(subjectConfigs(t)...)
	var err error
	switch {
	case live == nil:
		err = apply.Create(ctx, r.Client, desired)
	case !ownsBinding(t, live, o.holders[namespace]):
		return foreignError{"role binding", namespace + "/" + live.Name}
	case live.RoleRef != roleRef:
		err = r.replaceBinding(ctx, o, live, desired, res)
	case equality.Semantic.DeepEqual(live.Subjects, subjects(t)) && want.on(live):
		return nil
	default:
		err = r.correctBinding(ctx, t, live, desired)
	}
	if err != nil {
		return explain(err, r.Options.AdminClusterRole)
	}
	res.wrote = true
	if settled(o, namespace) {
		res.events = append(res.events, about(reporting.Warning(v1beta1.EventAdminBindingRepaired, "Repair",
			"role binding %s/%s was missing or different from the spec and was restored; the audit log shows the change", namespace, adminBindingName), namespace))
	}
	return nil
}

// correctBinding applies what the binding must be. An object has one controller only,
// so another one goes first.
func (r *Reconciler) correctBinding(ctx context.Context, t *v1beta1.Tenant, live *rbacv1.RoleBinding, desired *rbacv1ac.RoleBindingApplyConfiguration) error {
	own := live.DeepCopy()
	if removeOwners(own, func(ref metav1.OwnerReference) bool {
		return ref.Controller != nil && *ref.Controller && ref.UID != t.UID
	}) {
		if err := apply.Patch(ctx, r.Client, own, live); err != nil {
			return fmt.Errorf("removing a controller of role binding %s/%s: %w", live.Namespace, live.Name, err)
		}
	}
	return apply.Update(ctx, r.Client, own, desired)
}

// replaceBinding makes a binding anew, as its role is immutable. The old one goes only
// when the API server would allow the new one. Where it would not, the old one stays,
// without the subjects that are not admins any more.
func (r *Reconciler) replaceBinding(
	ctx context.Context, o *observation, live *rbacv1.RoleBinding, desired *rbacv1ac.RoleBindingApplyConfiguration, res *result,
) error {
	trial := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, GenerateName: "leasehold-tenant-admin-"},
		RoleRef:    clusterRoleRef(r.Options.AdminClusterRole), Subjects: subjects(o.tenant),
	}
	if refused := apply.TryCreate(ctx, r.Client, trial); refused != nil {
		if err := r.restrictBinding(ctx, o, live, res); err != nil {
			return err
		}
		return refused
	}
	if err := r.removeBinding(ctx, res, live); err != nil {
		return err
	}
	return apply.Create(ctx, r.Client, desired)
}

// restrictBinding takes away the rights of subjects that are not admins any more, and
// gives none. It is for when the binding cannot become what it must be.
func (r *Reconciler) restrictBinding(ctx context.Context, o *observation, live *rbacv1.RoleBinding, res *result) error {
	if live == nil {
		return nil
	}
	if !ownsBinding(o.tenant, live, o.holders[live.Namespace]) {
		return foreignError{"role binding", live.Namespace + "/" + live.Name}
	}
	admins := subjects(o.tenant)
	left := slices.DeleteFunc(slices.Clone(live.Subjects), func(s rbacv1.Subject) bool {
		return !slices.Contains(admins, s)
	})
	switch len(left) {
	case len(live.Subjects):
		return nil
	case 0:
		return r.removeBinding(ctx, res, live)
	}
	restricted := live.DeepCopy()
	restricted.Subjects = left
	if err := apply.Patch(ctx, r.Client, restricted, live); err != nil {
		return fmt.Errorf("restricting role binding %s/%s: %w", live.Namespace, live.Name, explain(err, live.RoleRef.Name))
	}
	res.wrote = true
	return nil
}

// explain names the right that is missing where the API server refused to bind a role.
func explain(err error, role string) error {
	var explained bindError
	if denial.Of(err).Kind != denial.Grant || errors.As(err, &explained) {
		return err
	}
	return bindError{role, err}
}

// settled reports whether the namespace and its binding were right for this spec, so
// that a difference now has another cause than the spec.
func settled(o *observation, namespace string) bool {
	return o.before.ObservedGeneration == o.tenant.Generation &&
		slices.ContainsFunc(o.before.Namespaces, func(ns v1beta1.TenantNamespace) bool {
			return ns.Name == namespace && ns.Reason == v1beta1.ReasonReconciled
		})
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
	if live != nil && ownsReader(t, live) && live.RoleRef != clusterRoleRef(name) {
		trial := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "leasehold-tenant-reader-"}, RoleRef: clusterRoleRef(name), Subjects: subjects(t),
		}
		if err := apply.TryCreate(ctx, r.Client, trial); err != nil {
			return fmt.Errorf("trying cluster role binding %s: %w", name, err)
		}
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
	case !ownsReader(t, live):
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
