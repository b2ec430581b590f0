// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// An operator that is down must not block deletions, so the webhook for DELETE has failurePolicy=ignore.
//
// +kubebuilder:webhook:path=/mutate-leasehold-dev-v1beta1-tenant,mutating=true,failurePolicy=fail,sideEffects=None,groups=leasehold.dev,resources=tenants,verbs=create,versions=v1beta1,name=mtenant.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent
// +kubebuilder:webhook:path=/validate-leasehold-dev-v1beta1-tenant,mutating=false,failurePolicy=fail,sideEffects=None,groups=leasehold.dev,resources=tenants,verbs=create;update,versions=v1beta1,name=vtenant.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent
// +kubebuilder:webhook:path=/validate-leasehold-dev-v1beta1-tenant,mutating=false,failurePolicy=ignore,sideEffects=None,groups=leasehold.dev,resources=tenants,verbs=delete,versions=v1beta1,name=vtenant-delete.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent

// SetupWebhookWithManager adds the defaulting and validating webhooks, which every replica serves. They check
// only what the CRD's rules cannot.
func SetupWebhookWithManager(mgr ctrl.Manager, o Options) error {
	w := &Webhook{Reader: mgr.GetCache(), Options: o}
	return ctrl.NewWebhookManagedBy(mgr, &v1beta1.Tenant{}).WithDefaulter(w).WithValidator(w).
		WithLogConstructor(reporting.LogOfReview).Complete()
}

// Webhook defaults and validates Tenants.
type Webhook struct {
	// Reader reads Tenants, with the index of this package, and namespaces.
	Reader  client.Reader
	Options Options
}

// Default sets the namespace prefix from the Tenant's name. It runs on creation only.
func (w *Webhook) Default(ctx context.Context, t *v1beta1.Tenant) error {
	if errs := oversize(ctx, t); len(errs) > 0 { // the response would have a patch for each element
		return apierrors.NewInvalid(tenantKind.GroupKind(), t.Name, errs)
	}
	// With generateName the name is still empty. The reconciler derives the same prefix.
	if t.Spec.NamespacePrefix == "" && t.Name != "" {
		t.Spec.NamespacePrefix = prefixOf(t)
	}
	return nil
}

// Sizes of a Tenant as JSON, in bytes. A review may have 1 MiB, and an update carries the Tenant twice.
const (
	mostBytes = 384 << 10
	// grownBytes leaves room for what is written after the creation: the status and managed fields.
	grownBytes = mostBytes + 64<<10
)

// oversize returns what is too long or too large in a Tenant. It must come first: the other checks loop over
// lists, whose length the schema bounds only after the defaulting webhook, and for other clients not at all.
func oversize(ctx context.Context, t *v1beta1.Tenant) field.ErrorList {
	spec, status := field.NewPath("spec"), field.NewPath("status")
	var errs field.ErrorList
	for _, list := range []struct {
		path      *field.Path
		has, most int
	}{
		{spec.Child("namespaces"), len(t.Spec.Namespaces), v1beta1.MaxNamespaces},
		{spec.Child("admins"), len(t.Spec.Admins), v1beta1.MaxAdmins},
		{status.Child("namespaces"), len(t.Status.Namespaces), v1beta1.MaxStatusNamespaces},
		{status.Child("conditions"), len(t.Status.Conditions), v1beta1.MaxConditions},
	} {
		if list.has > list.most {
			errs = append(errs, field.TooMany(list.path, list.has, list.most))
		}
	}
	review, err := admission.RequestFromContext(ctx)
	size, most := len(review.Object.Raw), mostBytes
	if old := len(review.OldObject.Raw); old > 0 {
		most = max(grownBytes, old)
	}
	if err == nil && size > most {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), fmt.Sprintf("%d bytes", size), fmt.Sprintf(
			"the object must be at most %d bytes as JSON; remove labels or annotations", most)))
	}
	return errs
}

// ValidateCreate refuses names that are reserved or in use by another Tenant, and warns of namespaces that
// exist.
func (w *Webhook) ValidateCreate(ctx context.Context, t *v1beta1.Tenant) (admission.Warnings, error) {
	if errs := oversize(ctx, t); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tenantKind.GroupKind(), t.Name, errs)
	}
	return w.validate(ctx, t, nil)
}

// ValidateUpdate checks the names only if the update changes them, so a Tenant that a newer rule would refuse
// can still be changed in other ways. It warns of each namespace that the update removes.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, t *v1beta1.Tenant) (admission.Warnings, error) {
	if !t.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	if errs := append(oversize(ctx, old), oversize(ctx, t)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tenantKind.GroupKind(), t.Name, errs)
	}
	before, kept := namespaceNames(old), sets.New(namespaceNames(t)...)
	warnings, err := w.validate(ctx, t, before)
	return append(removalWarnings(slices.DeleteFunc(before, kept.Has), policyOf(t)), warnings...), err
}

// ValidateDelete warns of each namespace that the deletion removes, and refuses one that would remove too much.
func (w *Webhook) ValidateDelete(ctx context.Context, t *v1beta1.Tenant) (admission.Warnings, error) {
	if len(oversize(ctx, t)) > 0 {
		return nil, nil
	}
	how := propagation(ctx)
	if how == metav1.DeletePropagationForeground {
		if err := w.protect(ctx, t); err != nil {
			return nil, err
		}
	}
	if !t.DeletionTimestamp.IsZero() { // the first deletion had the warnings
		return nil, nil
	}
	owned, policy := ownedNames(t), policyOf(t)
	slices.Sort(owned)
	if how == metav1.DeletePropagationOrphan {
		policy = v1beta1.NamespaceRetain
	}
	return removalWarnings(owned, policy), nil
}

// protect returns an error if a foreground deletion would delete a namespace of a paused Tenant, or one to retain:
// the garbage collector deletes what has an owner reference without waiting for a finalizer of the owner.
func (w *Webhook) protect(ctx context.Context, t *v1beta1.Tenant) error {
	if !reconciler.Paused(t) && policyOf(t) != v1beta1.NamespaceRetain {
		return nil
	}
	for _, name := range usedNames(t) {
		ns, err := reconciler.Get(ctx, w.Reader, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if err != nil {
			return fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if ns != nil && ns.DeletionTimestamp.IsZero() && isOwner(t, ns) {
			return fmt.Errorf("a foreground deletion would delete namespace %s before the operator can act: the Tenant is "+
				"paused, or its policy Retain is not applied yet; delete the Tenant with --cascade=background", name)
		}
	}
	return nil
}

// propagation returns how a deletion treats the dependents; "" if the request does not say. The finalizer that
// policyOf looks for is set after admission.
func propagation(ctx context.Context) metav1.DeletionPropagation {
	var o metav1.DeleteOptions
	review, err := admission.RequestFromContext(ctx)
	if err != nil || json.Unmarshal(review.Options.Raw, &o) != nil {
		return ""
	}
	if ptr.Deref(o.OrphanDependents, false) { //nolint:staticcheck // clients still send the deprecated form
		return metav1.DeletePropagationOrphan
	}
	return ptr.Deref(o.PropagationPolicy, "")
}

// validate checks the names that are not in before, the names of the old object.
func (w *Webhook) validate(ctx context.Context, t *v1beta1.Tenant, before []string) (admission.Warnings, error) {
	var errs field.ErrorList
	var warnings admission.Warnings
	names, had, listed := namespaceNames(t), sets.New(before...), recorded(t)
	if !slices.Equal(names, before) {
		_, errs = wantedNames(t, w.Options)
	}
	path := field.NewPath("spec", "namespaces")
	for i, name := range names {
		if err := ctx.Err(); err != nil { // the client has left
			return nil, fmt.Errorf("checking namespace %s: %w", name, err)
		}
		if had.Has(name) {
			continue
		}
		used, err := w.usedByOther(ctx, name, t.Name)
		if err != nil {
			return nil, err
		}
		if used {
			errs = append(errs, field.Invalid(path.Index(i), string(t.Spec.Namespaces[i]), fmt.Sprintf(
				"namespace %s is in use by another Tenant; choose another name or prefix, or, if that Tenant is "+
					"being deleted, wait until it is gone", name)))
			continue
		}
		ns, err := reconciler.Get(ctx, w.Reader, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if err != nil {
			return nil, fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if ns != nil && !owns(t, ns, listed[name].UID) {
			warnings = append(warnings, fmt.Sprintf("namespace %s exists and does not belong to this Tenant; the "+
				"operator does not adopt the namespace, and the Tenant is not Ready while spec.namespaces contains "+
				"the name; "+conflictAdvice, name))
		}
	}
	if len(errs) > 0 {
		return warnings, apierrors.NewInvalid(tenantKind.GroupKind(), t.Name, errs)
	}
	return warnings, nil
}

// usedByOther reports whether another Tenant uses the namespace. It reads from the cache, so two Tenants
// created at the same time may both pass, and the reconciler gives the namespace to one of them. The answer
// does not name the other, which may be no business of the user.
func (w *Webhook) usedByOther(ctx context.Context, namespace, self string) (bool, error) {
	var list v1beta1.TenantList
	if err := w.Reader.List(ctx, &list, client.MatchingFields{indexNamespaces: namespace}); err != nil {
		return false, fmt.Errorf("listing tenants that use namespace %s: %w", namespace, err)
	}
	return slices.ContainsFunc(list.Items, func(other v1beta1.Tenant) bool { return other.Name != self }), nil
}

// removalWarnings returns a warning for each namespace that is removed from its Tenant.
func removalWarnings(names []string, policy v1beta1.NamespaceDeletionPolicy) admission.Warnings {
	effect := "will be deleted with everything in it"
	if policy == v1beta1.NamespaceRetain {
		effect = "will be kept, without the admins' RoleBinding " + adminBindingName
	}
	var warnings admission.Warnings
	for _, name := range names {
		warnings = append(warnings, fmt.Sprintf("namespace %s %s", name, effect))
	}
	return warnings
}
