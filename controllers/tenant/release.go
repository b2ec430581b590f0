package tenant

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// pageSize bounds the namespaces in one response of the API server.
const pageSize = 500

// releaseNamespace deletes the admins' binding and then removes the ownership metadata.
// A namespace without ownership metadata is not reconciled, so the binding goes first.
func (r *Reconciler) releaseNamespace(ctx context.Context, o *observation, s step, res *result) (outcome, error) {
	out := outcome{uid: s.live.UID, reason: v1beta1.ReasonPending}
	if err := r.unbind(ctx, o, s, res); err != nil {
		return out, err
	}
	bare := s.live.DeepCopy()
	if !removeOwnershipMeta(o.tenant, bare) {
		return outcome{}, nil
	}
	if err := apply.Patch(ctx, r.Client, bare, s.live); err != nil {
		return out, client.IgnoreNotFound(err)
	}
	res.wrote = true
	res.events = append(res.events, about(reporting.Normal(v1beta1.EventNamespaceRetained, "Release",
		"kept namespace %s, and removed the ownership labels and the admins' rights", s.name), s.name))
	r.metrics.removed.Inc()
	return outcome{}, nil
}

// unbind deletes the Tenant's binding from a namespace before its name leaves the status, and
// verifies the deletion. It reads from the API server, since no later reconcile looks for it.
func (r *Reconciler) unbind(ctx context.Context, o *observation, s step, res *result) error {
	if s.live == nil {
		return nil
	}
	key := client.ObjectKey{Namespace: s.name, Name: adminBindingName}
	live, err := reconciler.Get(ctx, r.Live, key, &rbacv1.RoleBinding{})
	if err != nil {
		return fmt.Errorf("reading role binding %s: %w", key, err)
	}
	if live == nil || s.action == forget && !ownsChild(o.tenant, live) {
		return nil
	}
	others, err := r.otherTenants(ctx, r.Client, o.tenant, live)
	if err != nil {
		return err
	}
	if !ownsBinding(o.tenant, live, others) {
		return foreignError{"role binding", key.String()}
	}
	if err := r.removeBinding(ctx, res, live); err != nil {
		return err
	}
	// Another client may have added a finalizer since, or created the binding again.
	left, err := reconciler.Get(ctx, r.Live, key, &rbacv1.RoleBinding{})
	if err != nil {
		return fmt.Errorf("reading role binding %s: %w", key, err)
	}
	// In a namespace of others, a new binding is theirs, and does not delay the Tenant.
	if left != nil && (s.action == release || left.UID == live.UID) {
		return apierrors.NewConflict(rbacv1.Resource("rolebindings"), adminBindingName,
			fmt.Errorf("it still exists in namespace %s", s.name))
	}
	return nil
}

// dropLastingBinding removes a binding with finalizers from a terminating namespace, and only removed admins from any
// other one. The namespace controller deletes the binding, possibly late. Until then the other admins keep access,
// because no binding can be created again, and they may have to remove what blocks the namespace.
func (r *Reconciler) dropLastingBinding(ctx context.Context, o *observation, namespace string, res *result) error {
	binding := o.bindings[namespace]
	if binding == nil || !ownsBinding(o.tenant, binding, o.otherTenants[namespace]) {
		return nil
	}
	if len(binding.Finalizers) > 0 {
		return r.removeBinding(ctx, res, binding)
	}
	return r.restrictBinding(ctx, o, binding, res)
}

// removeBinding deletes a binding at once, with its finalizers. The authorizer ignores
// deletion timestamps, so a terminating binding would still grant its rights.
func (r *Reconciler) removeBinding(ctx context.Context, res *result, binding *rbacv1.RoleBinding) error {
	if err := apply.Remove(ctx, r.Client, binding); err != nil {
		return fmt.Errorf("deleting role binding %s/%s: %w", binding.Namespace, binding.Name, err)
	}
	res.wrote = true
	return nil
}

// disownRemaining removes false owner references from all namespaces before the Tenant is
// deleted. It reads from the API server, since a reference that the cache does not show
// yet would delete a foreign namespace. The Tenant owns no namespace at this point. If one
// is found, the decision was made on a stale cache, and disownRemaining returns a Conflict.
func (r *Reconciler) disownRemaining(ctx context.Context, t *v1beta1.Tenant) error {
	listed := usedNameSet(t)
	page := &metav1.PartialObjectMetadataList{}
	for first := true; first || page.Continue != ""; first = false {
		token := page.Continue
		page = &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		if err := r.Live.List(ctx, page, client.Limit(pageSize), client.Continue(token)); err != nil {
			return fmt.Errorf("listing namespaces: %w", err)
		}
		for i := range page.Items {
			ns := &page.Items[i]
			ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
			switch {
			case claimsOf(ns).annotationUID == t.UID && ownsNamespace(t, listed, ns):
				return apierrors.NewConflict(corev1.Resource("namespaces"), ns.Name,
					fmt.Errorf("it still belongs to Tenant %s", t.Name))
			case ownerIndex(t, ns) >= 0:
				if err := apply.RemoveOwner(ctx, r.Client, ns, t.UID); err != nil {
					return fmt.Errorf("disowning namespace %s: %w", ns.Name, err)
				}
			}
		}
	}
	return nil
}

// finalize removes the reader role and binding after the last namespace is deleted or
// released.
func (r *Reconciler) finalize(ctx context.Context, o *observation, res *result) {
	for _, out := range res.outcomes {
		if out.reason != "" {
			return
		}
	}
	if o.reader != nil && ownsReader(o.tenant, o.reader) {
		res.record(r.deleteChild(ctx, res, o.reader), "deleting cluster role "+o.reader.Name)
	}
	if o.readerBinding != nil && ownsReader(o.tenant, o.readerBinding) {
		res.record(r.deleteChild(ctx, res, o.readerBinding), "deleting cluster role binding "+o.readerBinding.Name)
	}
	if len(res.errs) > 0 || res.retry != nil {
		return
	}
	// This must be the last step before the finalizer is removed.
	res.record(r.disownRemaining(ctx, o.tenant), "removing false owner references")
	res.released = len(res.errs) == 0 && res.retry == nil
}
