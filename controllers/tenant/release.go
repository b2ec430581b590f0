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

// pageSize bounds how many namespaces one answer of the API server holds.
const pageSize = 500

// releaseNamespace takes the ownership metadata off, once the name that is reserved
// for the admins' binding is bound to nothing.
func (r *Reconciler) releaseNamespace(ctx context.Context, o *observation, s step, res *result) (outcome, error) {
	out := outcome{uid: s.live.UID, reason: v1beta1.ReasonPending}
	if err := res.bound[s.name]; err != nil {
		out.reason, out.detail = reasonFor(err), err.Error()
		return out, nil
	}
	if err := r.unbind(ctx, o, s.name, res); err != nil {
		return out, err
	}
	bare := s.live.DeepCopy()
	if !unmark(o.tenant, bare) {
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

// unbind makes sure that the admins' binding is gone from a namespace. It reads past
// the cache: after the release nothing would find a right that is left.
func (r *Reconciler) unbind(ctx context.Context, o *observation, namespace string, res *result) error {
	key := client.ObjectKey{Namespace: namespace, Name: adminBindingName}
	live, err := reconciler.Get(ctx, r.Live, key, &rbacv1.RoleBinding{})
	if err != nil {
		return fmt.Errorf("reading role binding %s: %w", key, err)
	}
	if live == nil {
		return nil
	}
	if seen := o.bindings[namespace]; seen == nil || seen.UID != live.UID || seen.ResourceVersion != live.ResourceVersion {
		return apierrors.NewConflict(rbacv1.Resource("rolebindings"), adminBindingName,
			fmt.Errorf("the cache is stale in namespace %s", namespace))
	}
	if !ownsBinding(o.tenant, live, o.holders[namespace]) {
		return foreignError{"role binding", key.String()}
	}
	if err := r.removeBinding(ctx, res, live); err != nil {
		return fmt.Errorf("deleting role binding %s: %w", key, err)
	}
	// What was read may have got a finalizer since, which keeps its rights alive.
	if live, err = reconciler.Get(ctx, r.Live, key, &rbacv1.RoleBinding{}); err != nil {
		return fmt.Errorf("reading role binding %s: %w", key, err)
	}
	if live != nil {
		return apierrors.NewConflict(rbacv1.Resource("rolebindings"), adminBindingName,
			fmt.Errorf("it still exists in namespace %s", namespace))
	}
	return nil
}

// removeBinding deletes a binding with the rights that it grants. A finalizer would
// keep them alive: the authorizer does not look at deletion timestamps.
func (r *Reconciler) removeBinding(ctx context.Context, res *result, binding *rbacv1.RoleBinding) error {
	if len(binding.Finalizers) > 0 {
		bare := binding.DeepCopy()
		bare.Finalizers = nil
		if err := client.IgnoreNotFound(apply.Patch(ctx, r.Client, bare, binding)); err != nil {
			return fmt.Errorf("removing finalizers: %w", err)
		}
	}
	return r.deleteChild(ctx, res, binding)
}

// disownForeign takes a false owner reference off a namespace that is not the
// Tenant's, so that the garbage collector does not delete it with the Tenant.
func (r *Reconciler) disownForeign(ctx context.Context, t *v1beta1.Tenant, ns client.Object) error {
	bare := ns.DeepCopyObject().(client.Object)
	disown(t, bare)
	return client.IgnoreNotFound(apply.Patch(ctx, r.Client, bare, ns))
}

// disownRemaining takes false owner references off all namespaces before the Tenant
// goes. It reads past the cache: a reference that the watch has not shown yet would
// cost a stranger's namespace. No namespace with the Tenant's mark is left at this
// point, so one that is its own shows that the decision was made on a stale cache.
func (r *Reconciler) disownRemaining(ctx context.Context, t *v1beta1.Tenant) error {
	listed := heldSet(t)
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
			case claimsOf(ns).markUID == t.UID && ownsNamespace(t, listed, ns):
				return apierrors.NewConflict(corev1.Resource("namespaces"), ns.Name,
					fmt.Errorf("it still belongs to Tenant %s", t.Name))
			case ownerIndex(t, ns) >= 0:
				if err := r.disownForeign(ctx, t, ns); err != nil {
					return fmt.Errorf("disowning namespace %s: %w", ns.Name, err)
				}
			}
		}
	}
	return nil
}

// finish removes what is left when every namespace is gone or released.
func (r *Reconciler) finish(ctx context.Context, o *observation, res *result) {
	for _, out := range res.outcomes {
		if out.reason != "" {
			return
		}
	}
	if o.reader != nil && ownsReader(o.tenant, o.reader) {
		res.note(r.deleteChild(ctx, res, o.reader), "deleting cluster role "+o.reader.Name)
	}
	if o.readerBinding != nil && ownsReader(o.tenant, o.readerBinding) {
		res.note(r.deleteChild(ctx, res, o.readerBinding), "deleting cluster role binding "+o.readerBinding.Name)
	}
	if len(res.errs) > 0 || res.retry != nil {
		return
	}
	// Last: only the finalizer follows.
	res.note(r.disownRemaining(ctx, o.tenant), "removing false owner references")
	res.released = len(res.errs) == 0 && res.retry == nil
}
