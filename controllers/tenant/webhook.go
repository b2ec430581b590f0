package tenant

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// A dead operator must never keep anything from being deleted: the webhook for
// DELETE, which only warns, is therefore one of its own that may fail.
//
// +kubebuilder:webhook:path=/mutate-leasehold-dev-v1beta1-tenant,mutating=true,failurePolicy=fail,sideEffects=None,groups=leasehold.dev,resources=tenants,verbs=create,versions=v1beta1,name=mtenant.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent
// +kubebuilder:webhook:path=/validate-leasehold-dev-v1beta1-tenant,mutating=false,failurePolicy=fail,sideEffects=None,groups=leasehold.dev,resources=tenants,verbs=create;update,versions=v1beta1,name=vtenant.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent
// +kubebuilder:webhook:path=/validate-leasehold-dev-v1beta1-tenant,mutating=false,failurePolicy=ignore,sideEffects=None,groups=leasehold.dev,resources=tenants,verbs=delete,versions=v1beta1,name=vtenant-delete.leasehold.dev,admissionReviewVersions=v1,timeoutSeconds=5,matchPolicy=Equivalent

// SetupWebhookWithManager adds the defaulting and validating webhooks. They
// answer on every replica and say only what the CRD's own rules cannot.
func SetupWebhookWithManager(mgr ctrl.Manager, o Options) error {
	w := &Webhook{Reader: mgr.GetCache(), OperatorNamespace: o.OperatorNamespace}
	err := ctrl.NewWebhookManagedBy(mgr, &v1beta1.Tenant{}).WithDefaulter(w).WithValidator(w).Complete()
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

// Default sets the namespace prefix from the Tenant's name. It is called on
// creation only: a default that is derived must not change later.
func (w *Webhook) Default(_ context.Context, t *v1beta1.Tenant) error {
	// With generateName there is no name yet; the reconciler derives the same.
	if t.Spec.NamespacePrefix == "" && t.Name != "" {
		t.Spec.NamespacePrefix = prefixOf(t)
	}
	return nil
}

// ValidateCreate refuses names that are reserved or held, and warns of those
// that exist and so cannot be taken over.
func (w *Webhook) ValidateCreate(ctx context.Context, t *v1beta1.Tenant) (admission.Warnings, error) {
	return w.validate(ctx, t, nil)
}

// ValidateUpdate judges the names only where the update changes them, so that a Tenant which
// a newer rule would refuse can still be changed in other ways. It warns of
// each namespace that the update removes.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, t *v1beta1.Tenant) (admission.Warnings, error) {
	if !t.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	var dropped []string
	kept := namespaceNames(t)
	for _, name := range namespaceNames(old) {
		if !slices.Contains(kept, name) {
			dropped = append(dropped, name)
		}
	}
	warnings, err := w.validate(ctx, t, namespaceNames(old))
	return append(leaving(dropped, policyOf(t)), warnings...), err
}

// ValidateDelete refuses nothing; it warns of what the deletion removes.
func (w *Webhook) ValidateDelete(_ context.Context, t *v1beta1.Tenant) (admission.Warnings, error) {
	if !t.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	var owned []string
	for _, ns := range t.Status.Namespaces {
		if ns.UID != "" {
			owned = append(owned, ns.Name)
		}
	}
	slices.Sort(owned)
	return leaving(owned, policyOf(t)), nil
}

// validate judges the names that are not among those allowed before.
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
		holder, err := w.holder(ctx, name, t.Name)
		if err != nil {
			return nil, err
		}
		if holder != "" {
			errs = append(errs, field.Invalid(path.Index(i), string(t.Spec.Namespaces[i]), fmt.Sprintf(
				"namespace %s is in use by Tenant %s; choose another name or prefix", name, holder)))
			continue
		}
		taken, err := w.taken(ctx, t, name)
		if err != nil {
			return nil, err
		}
		if taken {
			warnings = append(warnings, fmt.Sprintf(
				"namespace %s exists and does not belong to this Tenant; the operator does not adopt it, and the Tenant is not Ready until it is deleted", name))
		}
	}
	if len(errs) > 0 {
		return warnings, apierrors.NewInvalid(tenantKind.GroupKind(), t.Name, errs)
	}
	return warnings, nil
}

// holder is the name of another Tenant that asks for or holds the namespace.
// It looks into the cache, so two Tenants that are created in the same instant
// may both pass; the reconciler then lets exactly one of them have it.
func (w *Webhook) holder(ctx context.Context, namespace, self string) (string, error) {
	var list v1beta1.TenantList
	if err := w.Reader.List(ctx, &list, client.MatchingFields{indexHolds: namespace}); err != nil {
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

// taken reports whether the namespace exists and is not the Tenant's.
func (w *Webhook) taken(ctx context.Context, t *v1beta1.Tenant, name string) (bool, error) {
	ns, err := reconciler.Get(ctx, w.Reader, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return ns != nil && !ownsNamespace(t, map[string]bool{name: true}, ns), nil
}

// leaving warns of each namespace that leaves its Tenant.
func leaving(names []string, policy v1beta1.NamespaceDeletionPolicy) admission.Warnings {
	var warnings admission.Warnings
	for _, name := range names {
		if policy == v1beta1.NamespaceRetain {
			warnings = append(warnings, fmt.Sprintf("namespace %s will be kept, without the admins' RoleBinding %s", name, adminBindingName))
		} else {
			warnings = append(warnings, fmt.Sprintf("namespace %s will be deleted with everything in it", name))
		}
	}
	return warnings
}
