// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	w := &Webhook{Reader: mgr.GetCache(), OperatorNamespace: o.OperatorNamespace}
	err := ctrl.NewWebhookManagedBy(mgr, &v1beta1.Tenant{}).WithDefaulter(w).WithValidator(w).
		WithLogConstructor(reporting.LogOfReview).Complete()
	if err != nil {
		return fmt.Errorf("adding tenant webhooks: %w", err)
	}
	return nil
}

// Webhook defaults and validates Tenants.
type Webhook struct {
	// Reader reads Tenants, with the indexes of this package, and namespaces.
	Reader            client.Reader
	OperatorNamespace string
}

var (
	_ admission.Defaulter[*v1beta1.Tenant] = &Webhook{}
	_ admission.Validator[*v1beta1.Tenant] = &Webhook{}
)

// Default sets the namespace prefix from the Tenant's name. It runs on creation only.
func (w *Webhook) Default(_ context.Context, t *v1beta1.Tenant) error {
	// With generateName the name is still empty. The reconciler derives the same prefix.
	if t.Spec.NamespacePrefix == "" && t.Name != "" {
		t.Spec.NamespacePrefix = prefixOf(t)
	}
	return nil
}

// ValidateCreate refuses names that are reserved or in use by another Tenant, and warns of namespaces that
// exist.
func (w *Webhook) ValidateCreate(ctx context.Context, t *v1beta1.Tenant) (admission.Warnings, error) {
	return w.validate(ctx, t, nil)
}

// ValidateUpdate checks the names only if the update changes them, so a Tenant that a newer rule would refuse
// can still be changed in other ways. It warns of each namespace that the update removes.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, t *v1beta1.Tenant) (admission.Warnings, error) {
	if !t.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	before, kept := namespaceNames(old), namespaceNames(t)
	warnings, err := w.validate(ctx, t, before)
	dropped := slices.DeleteFunc(before, func(name string) bool { return slices.Contains(kept, name) })
	return append(removalWarnings(dropped, policyOf(t)), warnings...), err
}

// ValidateDelete warns of each namespace that the deletion removes, and refuses nothing.
func (w *Webhook) ValidateDelete(_ context.Context, t *v1beta1.Tenant) (admission.Warnings, error) {
	if !t.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	owned := ownedNames(t)
	slices.Sort(owned)
	return removalWarnings(owned, policyOf(t)), nil
}

// validate checks the names that are not in before, the names of the old object.
func (w *Webhook) validate(ctx context.Context, t *v1beta1.Tenant, before []string) (admission.Warnings, error) {
	var warnings admission.Warnings
	var errs field.ErrorList
	names := namespaceNames(t)
	if !slices.Equal(names, before) {
		_, errs = refusedNames(t, w.OperatorNamespace)
	}
	path := field.NewPath("spec", "namespaces")
	for i, name := range names {
		if slices.Contains(before, name) {
			continue
		}
		used, err := w.usedByOther(ctx, name, t.Name)
		if err != nil {
			return nil, err
		}
		if used {
			errs = append(errs, field.Invalid(path.Index(i), string(t.Spec.Namespaces[i]), fmt.Sprintf(
				"namespace %s is in use by another Tenant; choose another name or prefix, or wait until a Tenant that is deleted is gone", name)))
			continue
		}
		ns, err := reconciler.Get(ctx, w.Reader, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if err != nil {
			return nil, fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if ns != nil && !owns(t, ns, true, recorded(t)[name].UID) {
			warnings = append(warnings, fmt.Sprintf("namespace %s exists and does not belong to this Tenant; the operator does not "+
				"adopt it, and the Tenant is not Ready while it names it; "+conflictAdvice, name))
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
