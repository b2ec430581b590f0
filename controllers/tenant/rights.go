// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/failure"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// ensureBinding creates or corrects the admins' RoleBinding in a namespace of the Tenant, whatever the
// binding claims: its name is reserved there. An event reports the repair of a binding that another client had
// changed.
func (r *Reconciler) ensureBinding(ctx context.Context, o *observation, s step, res *result) error {
	t, live := o.tenant, o.bindings[s.name]
	// A binding to a missing role grants nothing and would hide that the role is missing.
	if o.missingAdminRole != "" {
		return r.restrictBinding(ctx, t, live, res)
	}
	want := &rbacv1.RoleBinding{ObjectMeta: childMeta(t, s.name, adminBindingName),
		RoleRef: clusterRole(r.Options.AdminClusterRole), Subjects: subjects(t)}
	matches := live != nil && live.DeletionTimestamp.IsZero() && len(drift(live, want.ObjectMeta)) == 0 &&
		equality.Semantic.DeepEqual(live.Subjects, want.Subjects)
	if matches && live.RoleRef == want.RoleRef {
		return nil
	}
	// If only the role differs, the operator's flag has changed.
	drifted := !matches && settled(o, s) &&
		reporting.FindCondition(o.before.Conditions, v1beta1.ConditionReady).Reason != v1beta1.ReasonAdminRoleNotFound
	if drifted || live != nil {
		if err := res.confirm(); err != nil {
			return err
		}
	}
	var err error
	if live == nil {
		err = apply.Create(ctx, r.Client, bindingConfig(want))
	} else {
		err = r.correctBinding(ctx, t, live, want, res)
	}
	if err != nil {
		return explain(err, r.Options.AdminClusterRole)
	}
	res.wrote = true
	if drifted {
		r.metrics.repaired.Inc()
		res.changed(s.name, reporting.Warning(v1beta1.EventAdminBindingRepaired, "Repair",
			"role binding %s/%s was missing or differed from the spec, and the operator restored it; the audit log "+
				"shows the change",
			s.name, adminBindingName))
	}
	return nil
}

func bindingConfig(want *rbacv1.RoleBinding) *rbacv1ac.RoleBindingApplyConfiguration {
	return configOf(rbacv1ac.RoleBinding(want.Name, want.Namespace), want)
}

// correctBinding changes a binding to the desired one, in place where the API server permits that.
// Otherwise it deletes the binding and makes it anew, once. If the desired binding is refused, it retains
// the old one, unless that has subjects that are no longer admins.
func (r *Reconciler) correctBinding(ctx context.Context, t *v1beta1.Tenant, live, want *rbacv1.RoleBinding,
	res *result) error {
	if live.RoleRef == want.RoleRef && live.DeletionTimestamp.IsZero() { // the role is immutable
		if err := apply.Overwrite(ctx, r.Client, live, bindingConfig(want)); err == nil || !prevents(err) {
			return err
		}
	}
	dryRun := want.DeepCopy() // under another name, since the old one exists; its response has no version to wait for
	dryRun.Name, dryRun.GenerateName = "", "leasehold-tenant-admin-"
	err := r.Client.Create(ctx, dryRun, client.DryRunAll, apply.FieldOwner, client.DisableReadYourWritesConsistency)
	switch {
	case failure.Of(err).IsDenial:
		return cmp.Or(r.restrictBinding(ctx, t, live, res),
			fmt.Errorf("creating the replacement before deleting the old role binding: %w", err))
	case err != nil: // an outage, which a removed admin cannot cause
		return err
	}
	// A relist swallows the event of this deletion, for which each later read would wait.
	if err := r.removeBinding(ctx, res, live, client.DisableReadYourWritesConsistency); err != nil {
		return err
	}
	return apply.Create(ctx, r.Client, bindingConfig(want))
}

// restrictBinding removes the subjects that are no admins where the desired binding cannot be created. If that
// is prevented, it deletes the binding: a removed admin loses access, even if the others lose theirs for a time.
func (r *Reconciler) restrictBinding(ctx context.Context, t *v1beta1.Tenant, live *rbacv1.RoleBinding,
	res *result) error {
	if live == nil {
		return nil
	}
	left := staying(t, live)
	if len(left) == len(live.Subjects) {
		return nil
	}
	if len(left) > 0 && live.DeletionTimestamp.IsZero() {
		err := apply.Overwrite(ctx, r.Client, live, bindingConfig(&rbacv1.RoleBinding{
			ObjectMeta: childMeta(t, live.Namespace, live.Name), RoleRef: live.RoleRef, Subjects: left}))
		if err == nil || !prevents(err) {
			res.wrote = res.wrote || err == nil
			return err
		}
	}
	return r.removeBinding(ctx, res, live)
}

// removeBinding deletes a binding with its finalizers. The authorizer ignores deletion timestamps, so a
// terminating binding would still grant its rights.
func (r *Reconciler) removeBinding(ctx context.Context, res *result, b *rbacv1.RoleBinding,
	o ...client.DeleteOption) error {
	if err := apply.Remove(ctx, r.Client, b, o...); err != nil {
		return fmt.Errorf("deleting role binding %s/%s: %w", b.Namespace, b.Name, err)
	}
	res.wrote = true
	return nil
}

// staying returns the subjects of a binding that are admins.
func staying(t *v1beta1.Tenant, b *rbacv1.RoleBinding) []rbacv1.Subject {
	admins := subjects(t)
	return slices.DeleteFunc(slices.Clone(b.Subjects), func(s rbacv1.Subject) bool { return !slices.Contains(admins, s) })
}

// prevents reports whether a change of a binding is refused for its content, for its role, or because another
// client changes it.
func prevents(refused error) bool {
	kind := failure.Of(refused)
	return kind == failure.Grant || kind == failure.Changed || kind == failure.Unstorable
}

// ensureReader creates or corrects the ClusterRole and the ClusterRoleBinding by which the admins read their
// own Tenant. Updates of the Tenant can create namespaces, so the admins may not update it.
func (r *Reconciler) ensureReader(ctx context.Context, o *observation, res *result) error {
	t, name := o.tenant, readerNamePrefix+o.tenant.Name
	role, binding := readerOf(t)
	err := ensureClusterChild(ctx, r, res, o, "cluster role", o.reader, configOf(rbacv1ac.ClusterRole(name), role),
		func(live *rbacv1.ClusterRole) []string {
			return append(drift(live, role.ObjectMeta), different("the rules", live.Rules, role.Rules)...)
		})
	if err != nil {
		return err
	}
	live := o.readerBinding
	if live != nil && ownsReader(t, live) && live.RoleRef != binding.RoleRef { // the role is immutable
		if err := res.confirm(); err != nil {
			return err
		}
		if err := apply.Delete(ctx, r.Client, live, client.DisableReadYourWritesConsistency); err != nil {
			return fmt.Errorf("deleting cluster role binding %s: %w", name, err)
		}
		live = nil
	}
	return ensureClusterChild(ctx, r, res, o, "cluster role binding", live,
		configOf(rbacv1ac.ClusterRoleBinding(name), binding), func(live *rbacv1.ClusterRoleBinding) []string {
			return append(drift(live, binding.ObjectMeta), different("the subjects", live.Subjects, binding.Subjects)...)
		})
}

// different names a field whose values differ.
func different(field string, has, want any) []string {
	if equality.Semantic.DeepEqual(has, want) {
		return nil
	}
	return []string{field + " differed"}
}

// readerOf returns the desired ClusterRole and ClusterRoleBinding of ensureReader.
func readerOf(t *v1beta1.Tenant) (*rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding) {
	m := childMeta(t, "", readerNamePrefix+t.Name)
	rule := rbacv1.PolicyRule{APIGroups: []string{v1beta1.GroupVersion.Group}, Resources: []string{"tenants"},
		ResourceNames: []string{t.Name}, Verbs: []string{"get"}}
	return &rbacv1.ClusterRole{ObjectMeta: m, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: m, RoleRef: clusterRole(m.Name), Subjects: subjects(t)}
}

// ensureClusterChild creates or corrects a cluster-scoped child. It returns errForeign if the object exists
// and the Tenant does not own it.
func ensureClusterChild[L reconciler.Object, D apply.Configuration[D]](ctx context.Context, r *Reconciler, res *result,
	o *observation, kind string, live L, desired D, differences func(L) []string) error {
	fields := []string{"the object was missing or bound another role"}
	var none L
	if live != none {
		if !ownsReader(o.tenant, live) {
			return fmt.Errorf("%s %s %w", kind, live.GetName(), errForeign)
		}
		if fields = differences(live); len(fields) == 0 {
			return nil
		}
	}
	drifted := o.before.ObservedGeneration == o.tenant.Generation &&
		meta.IsStatusConditionTrue(o.before.Conditions, v1beta1.ConditionReady)
	if drifted || live != none {
		if err := res.confirm(); err != nil {
			return err
		}
	}
	var err error
	if live == none {
		err = apply.Create(ctx, r.Client, desired)
	} else {
		err = apply.Update(ctx, r.Client, live, desired)
	}
	if err != nil {
		return err
	}
	res.wrote = true
	if drifted {
		event := reporting.Corrected(kind+" "+readerNamePrefix+o.tenant.Name+", which lets the admins read their Tenant", fields)
		event.Action += " " + kind // the role and its binding are corrected in one reconcile; see PendingEvent
		res.events = append(res.events, event)
	}
	return nil
}

func clusterRole(name string) rbacv1.RoleRef {
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

var errForeign = failure.New(failure.Foreign, "exists and does not belong to this Tenant; correct the owner of that "+
	"object, or create the Tenant under another name")

// explain returns an error with the remedy if the API server refused to bind a role, and err otherwise. It
// omits the API server's message, which lists every rule of the role.
func explain(err error, role string) error {
	if failure.Of(err) != failure.Grant {
		return err
	}
	return failure.New(failure.Grant, "the operator lacks the verb bind on ClusterRole "+role+", so it cannot bind the "+
		"admins to that role; add "+role+" to the resourceNames of the rule with the verb bind in the operator's "+
		"ClusterRole (config/rbac/manager_role.yaml), or change the flag --tenant-admin-cluster-role")
}
