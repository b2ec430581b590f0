package tenant

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// An operator that is down must not block deletions. The webhook for DELETE only warns, so
// it is registered separately with failurePolicy=ignore.
//
// +kubebuilder:webhook:path=/mutate-leasehold-dev-v1beta1-tenant,mutating=true,failurePolicy=fail,sideEffects=None,groups=leasehold.dev,resources=tenants,verbs=create,versions=v1beta1,name=mtenant.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent
// +kubebuilder:webhook:path=/validate-leasehold-dev-v1beta1-tenant,mutating=false,failurePolicy=fail,sideEffects=None,groups=leasehold.dev,resources=tenants,verbs=create;update,versions=v1beta1,name=vtenant.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent
// +kubebuilder:webhook:path=/validate-leasehold-dev-v1beta1-tenant,mutating=false,failurePolicy=ignore,sideEffects=None,groups=leasehold.dev,resources=tenants,verbs=delete,versions=v1beta1,name=vtenant-delete.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent

// SetupWebhookWithManager adds the defaulting and validating webhooks. Every replica serves
// them. They check only what the CRD's rules cannot.
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

// Default sets the namespace prefix from the Tenant's name. It runs on creation only,
// since a derived default must not change later.
func (w *Webhook) Default(_ context.Context, t *v1beta1.Tenant) error {
	// With generateName the name is still empty. The reconciler derives the same prefix.
	if t.Spec.NamespacePrefix == "" && t.Name != "" {
		t.Spec.NamespacePrefix = prefixOf(t)
	}
	return nil
}

// ValidateCreate refuses names that are reserved or in use by another Tenant. It warns of
// existing namespaces, which the operator does not adopt.
func (w *Webhook) ValidateCreate(ctx context.Context, t *v1beta1.Tenant) (admission.Warnings, error) {
	if err := validateForm(t); err != nil {
		return nil, err
	}
	return w.validate(ctx, t, nil)
}

// ValidateUpdate checks the names only if the update changes them. A Tenant that a newer
// rule would refuse can thus still be changed in other ways. It warns of each namespace
// that the update removes.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, t *v1beta1.Tenant) (admission.Warnings, error) {
	if !t.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	if err := validateForm(old); err != nil {
		return nil, err
	}
	if err := validateForm(t); err != nil {
		return nil, err
	}
	var dropped []string
	kept := namespaceNames(t)
	for _, name := range namespaceNames(old) {
		if !slices.Contains(kept, name) {
			dropped = append(dropped, name)
		}
	}
	warnings, err := w.validate(ctx, t, namespaceNames(old))
	return append(removalWarnings(dropped, policyOf(t)), warnings...), err
}

// ValidateDelete warns of each namespace that the deletion removes, and refuses nothing. A status
// that no schema permits has no namespace.
func (w *Webhook) ValidateDelete(_ context.Context, t *v1beta1.Tenant) (admission.Warnings, error) {
	if !t.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	var owned []string
	for _, ns := range t.Status.Namespaces {
		if ns.UID != "" && len(ns.Name) <= validation.DNS1123LabelMaxLength {
			owned = append(owned, ns.Name)
		}
	}
	if len(owned) > v1beta1.MaxStatusNamespaces {
		return nil, nil
	}
	slices.Sort(owned)
	return removalWarnings(owned, policyOf(t)), nil
}

// validateForm repeats limits of the schema, before any name is checked. Its errors quote nothing.
// The attacker is a client that sends reviews without credentials: one error for each of 8,000 names
// takes seconds to join, and one that quotes a name of 7 MiB needs more memory than a replica has.
func validateForm(t *v1beta1.Tenant) error {
	var errs field.ErrorList
	path := field.NewPath("spec", "namespaces")
	if n := len(t.Spec.Namespaces); n > v1beta1.MaxNamespaces {
		errs = append(errs, field.TooMany(path, n, v1beta1.MaxNamespaces))
	} else if slices.ContainsFunc(t.Spec.Namespaces, func(suffix v1beta1.NamespaceSuffix) bool {
		return len(suffix) > validation.DNS1123LabelMaxLength
	}) {
		errs = append(errs, field.TooLong(path, "", validation.DNS1123LabelMaxLength))
	}
	for path, value := range map[*field.Path]string{
		field.NewPath("metadata", "name"): t.Name, field.NewPath("spec", "namespacePrefix"): t.Spec.NamespacePrefix,
	} {
		if len(value) > validation.DNS1123SubdomainMaxLength {
			errs = append(errs, field.TooLong(path, "", validation.DNS1123SubdomainMaxLength))
		}
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(tenantKind.GroupKind(), "", errs)
	}
	return nil
}

// validate checks the names that are not in before, the names of the old object.
func (w *Webhook) validate(ctx context.Context, t *v1beta1.Tenant, before []string) (admission.Warnings, error) {
	var warnings admission.Warnings
	var errs field.ErrorList
	names := namespaceNames(t)
	if !slices.Equal(names, before) {
		errs = validateNames(t, w.OperatorNamespace)
	}
	path := field.NewPath("spec", "namespaces")
	for i, name := range names {
		if slices.Contains(before, name) {
			continue
		}
		other, err := w.otherTenant(ctx, name, t.Name)
		if err != nil {
			return nil, err
		}
		if other != "" {
			errs = append(errs, field.Invalid(path.Index(i), string(t.Spec.Namespaces[i]), fmt.Sprintf(
				"namespace %s is in use by Tenant %s; choose another name or prefix", name, other)))
			continue
		}
		taken, err := w.taken(ctx, t, name)
		if err != nil {
			return nil, err
		}
		if taken {
			warnings = append(warnings, fmt.Sprintf(
				"namespace %s exists and does not belong to this Tenant; the operator does not adopt it, and the Tenant is not Ready while it names it; "+
					conflictAdvice, name))
		}
	}
	if len(errs) > 0 {
		return warnings, apierrors.NewInvalid(tenantKind.GroupKind(), t.Name, errs)
	}
	return warnings, nil
}

// otherTenant returns the names of other Tenants that use the namespace, or "". It reads
// from the cache, so two Tenants created at the same time may both pass. The reconciler
// then gives the namespace to exactly one of them.
func (w *Webhook) otherTenant(ctx context.Context, namespace, self string) (string, error) {
	var list v1beta1.TenantList
	if err := w.Reader.List(ctx, &list, client.MatchingFields{indexNamespaces: namespace}); err != nil {
		return "", fmt.Errorf("listing tenants that hold namespace %s: %w", namespace, err)
	}
	var names []string
	for _, other := range list.Items {
		if other.Name != self {
			names = append(names, other.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", "), nil
}

// taken reports whether the namespace exists and the Tenant does not own it.
func (w *Webhook) taken(ctx context.Context, t *v1beta1.Tenant, name string) (bool, error) {
	ns, err := reconciler.Get(ctx, w.Reader, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return ns != nil && !ownsNamespace(t, map[string]bool{name: true}, ns), nil
}

// removalWarnings returns a warning for each namespace that is removed from its Tenant.
func removalWarnings(names []string, policy v1beta1.NamespaceDeletionPolicy) admission.Warnings {
	var warnings admission.Warnings
	for _, name := range names {
		if policy == v1beta1.NamespaceRetain {
			warnings = append(warnings, fmt.Sprintf("namespace %s will be kept, without the admins' RoleBinding %s", name,
				adminBindingName))
		} else {
			warnings = append(warnings, fmt.Sprintf("namespace %s will be deleted with everything in it", name))
		}
	}
	return warnings
}
