package tenant

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/reporting"
)

// ensureBinding creates or corrects the admins' RoleBinding in a namespace of the Tenant.
func (r *Reconciler) ensureBinding(ctx context.Context, o *observation, namespace string, live *rbacv1.RoleBinding,
	res *result) error {
	// A binding to a missing role grants nothing and would hide that the role is missing.
	if o.missingAdminRole != "" {
		return r.restrictBinding(ctx, o, live, res)
	}
	t, want, roleRef := o.tenant, childMeta(o.tenant), clusterRoleRef(r.Options.AdminClusterRole)
	desired := rbacv1ac.RoleBinding(adminBindingName, namespace).
		WithLabels(want.labels).WithAnnotations(want.annotations).WithOwnerReferences(want.ownerConfig()...).
		WithRoleRef(roleRefConfig(r.Options.AdminClusterRole)).WithSubjects(subjectConfigs(t)...)
	var err error
	switch {
	case live == nil:
		err = apply.Create(ctx, r.Client, desired)
	case !ownsBinding(t, live, o.otherTenants[namespace]):
		return foreignError{"role binding", namespace + "/" + live.Name}
	case live.RoleRef == roleRef && live.DeletionTimestamp.IsZero() &&
		equality.Semantic.DeepEqual(live.Subjects, subjects(t)) && want.isSetOn(live):
		return nil
	default:
		err = r.correctBinding(ctx, o, live, desired, res)
	}
	if err != nil {
		return explain(err, r.Options.AdminClusterRole)
	}
	res.wrote = true
	if wasReconciled(o, namespace) {
		res.events = append(res.events, about(reporting.Warning(v1beta1.EventAdminBindingRepaired, "Repair",
			"role binding %s/%s was missing or different from the spec and was restored; the audit log shows the change",
			namespace, adminBindingName), namespace))
	}
	return nil
}

// correctBinding changes a binding to the desired one, in place where the API server permits that.
// It never negotiates with another client: it replaces a binding whose content or changes prevent
// the correction. If the desired binding is refused, it retains the old one, without the subjects
// that are no longer admins.
func (r *Reconciler) correctBinding(ctx context.Context, o *observation, live *rbacv1.RoleBinding,
	desired *rbacv1ac.RoleBindingApplyConfiguration, res *result) error {
	controller := metav1.GetControllerOf(live)
	// A finalizer of another client does not belong there, and a replacement needs fewer requests.
	if live.RoleRef == clusterRoleRef(r.Options.AdminClusterRole) && len(live.Finalizers) == 0 &&
		(controller == nil || controller.UID == o.tenant.UID) {
		if err := apply.Update(ctx, r.Client, live, desired); err == nil || !o.prevents(err) {
			return err
		}
	}
	// The role is immutable, and the deletion must not precede a refused creation.
	dryRun := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, GenerateName: "leasehold-tenant-admin-"},
		RoleRef:    clusterRoleRef(r.Options.AdminClusterRole), Subjects: subjects(o.tenant),
	}
	if refused := apply.TryCreate(ctx, r.Client, dryRun); refused != nil {
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

// restrictBinding removes the subjects that are no longer admins, and adds none. It serves
// where the desired binding cannot be created.
func (r *Reconciler) restrictBinding(ctx context.Context, o *observation, live *rbacv1.RoleBinding, res *result) error {
	if live == nil {
		return nil
	}
	if !ownsBinding(o.tenant, live, o.otherTenants[live.Namespace]) {
		return foreignError{"role binding", live.Namespace + "/" + live.Name}
	}
	if !bindsOthers(o.tenant, live) {
		return nil
	}
	left := slices.DeleteFunc(subjects(o.tenant), func(s rbacv1.Subject) bool {
		return !slices.Contains(live.Subjects, s)
	})
	if len(left) == 0 {
		return r.removeBinding(ctx, res, live)
	}
	restricted := live.DeepCopy()
	restricted.Subjects = left
	err := apply.Patch(ctx, r.Client, restricted, live)
	// A removed admin loses access, even if the others lose theirs until the cause is resolved.
	if err != nil && o.prevents(err) {
		return r.removeBinding(ctx, res, live)
	}
	if err != nil {
		return fmt.Errorf("restricting role binding %s/%s: %w", live.Namespace, live.Name, explain(err, live.RoleRef.Name))
	}
	res.wrote = true
	return nil
}

// bindsOthers reports whether a binding has subjects that are no admins. The cache truncates a long
// list of subjects, whose rest may have some.
func bindsOthers(t *v1beta1.Tenant, binding *rbacv1.RoleBinding) bool {
	admins := subjects(t)
	return len(binding.Subjects) > v1beta1.MaxAdmins ||
		slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return !slices.Contains(admins, s) })
}

// wasReconciled reports whether the namespace and its binding were Reconciled for this
// generation. If so, another client caused the difference.
func wasReconciled(o *observation, namespace string) bool {
	return o.before.ObservedGeneration == o.tenant.Generation &&
		slices.ContainsFunc(o.before.Namespaces, func(ns v1beta1.TenantNamespace) bool {
			return ns.Name == namespace && ns.Reason == v1beta1.ReasonReconciled
		})
}

// ensureReader creates or corrects the ClusterRole and the ClusterRoleBinding by which the
// admins read their own Tenant. Both have the same name.
func (r *Reconciler) ensureReader(ctx context.Context, o *observation, res *result) error {
	t, want, name := o.tenant, childMeta(o.tenant), readerNamePrefix+o.tenant.Name
	role := rbacv1ac.ClusterRole(name).
		WithLabels(want.labels).WithAnnotations(want.annotations).WithOwnerReferences(want.ownerConfig()...).
		WithRules(rbacv1ac.PolicyRule().WithAPIGroups(v1beta1.GroupVersion.Group).WithResources("tenants").
			WithResourceNames(t.Name).WithVerbs("get"))
	err := ensureClusterChild(ctx, r, res, t, "cluster role", o.reader, role, func(live *rbacv1.ClusterRole) bool {
		return want.isSetOn(live) && equality.Semantic.DeepEqual(live.Rules, readerRules(t))
	})
	if err != nil {
		return err
	}
	binding := rbacv1ac.ClusterRoleBinding(name).
		WithLabels(want.labels).WithAnnotations(want.annotations).WithOwnerReferences(want.ownerConfig()...).
		WithRoleRef(roleRefConfig(name)).WithSubjects(subjectConfigs(t)...)
	live := o.readerBinding
	if live != nil && ownsReader(t, live) && live.RoleRef != clusterRoleRef(name) {
		dryRun := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "leasehold-tenant-reader-"}, RoleRef: clusterRoleRef(name),
			Subjects: subjects(t),
		}
		if err := apply.TryCreate(ctx, r.Client, dryRun); err != nil {
			return fmt.Errorf("trying cluster role binding %s: %w", name, err)
		}
		if err := r.deleteChild(ctx, res, live); err != nil {
			return err
		}
		live = nil
	}
	return ensureClusterChild(ctx, r, res, t, "cluster role binding", live, binding,
		func(live *rbacv1.ClusterRoleBinding) bool {
			return want.isSetOn(live) && equality.Semantic.DeepEqual(live.Subjects, subjects(t))
		})
}

// ensureClusterChild creates or corrects a cluster-scoped child. It returns a foreignError
// if the object exists and the Tenant does not own it.
func ensureClusterChild[L interface {
	metav1.Object
	comparable
}, D apply.Configuration[D]](ctx context.Context, r *Reconciler, res *result, t *v1beta1.Tenant, kind string, live L,
	desired D, matches func(L) bool) error {
	var none L
	var err error
	switch {
	case live == none:
		err = apply.Create(ctx, r.Client, desired)
	case !ownsReader(t, live):
		return foreignError{kind, live.GetName()}
	case matches(live):
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

// subjects returns the admins as RBAC subjects.
func subjects(t *v1beta1.Tenant) []rbacv1.Subject {
	out := make([]rbacv1.Subject, 0, len(t.Spec.Admins))
	for _, admin := range t.Spec.Admins {
		s := rbacv1.Subject{Kind: string(admin.Kind), Name: admin.Name, Namespace: admin.Namespace}
		if admin.Kind != v1beta1.SubjectServiceAccount {
			s.APIGroup = rbacv1.GroupName
		}
		out = append(out, s)
	}
	return out
}

func subjectConfigs(t *v1beta1.Tenant) []*rbacv1ac.SubjectApplyConfiguration {
	var out []*rbacv1ac.SubjectApplyConfiguration
	for _, s := range subjects(t) {
		c := rbacv1ac.Subject().WithKind(s.Kind).WithName(s.Name)
		if s.APIGroup != "" {
			c.WithAPIGroup(s.APIGroup)
		}
		if s.Namespace != "" {
			c.WithNamespace(s.Namespace)
		}
		out = append(out, c)
	}
	return out
}

func roleRefConfig(name string) *rbacv1ac.RoleRefApplyConfiguration {
	return rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(name)
}

// readerRules allow the admins to get their own Tenant. They do not allow updates, since
// an update of the Tenant can create namespaces.
func readerRules(t *v1beta1.Tenant) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups:     []string{v1beta1.GroupVersion.Group},
		Resources:     []string{"tenants"},
		ResourceNames: []string{t.Name},
		Verbs:         []string{"get"},
	}}
}
