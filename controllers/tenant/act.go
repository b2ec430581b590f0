package tenant

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/denial"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// outcome is how one step ended.
type outcome struct {
	name   string
	uid    types.UID // of the owned namespace; "" if none
	reason string    // a reason of the API; "" drops the name from the status
	detail string    // human-readable; may be empty
	// advice replaces the general message of the reason; may be empty.
	advice string
}

// result is how a reconcile ended.
type result struct {
	outcomes []outcome
	// reader is the outcome for the ClusterRole and binding by which admins read their
	// Tenant; its reason is Reconciled on success.
	reader outcome
	// errs are the failures that a retry may cure.
	errs []error
	// retry is the Conflict or the denial by the fence that requires another
	// reconcile; nil if there was none.
	retry error
	// wrote is true if the reconcile changed at least one child.
	wrote bool
	// events report changes of single objects.
	events []reporting.PendingEvent
	// foreign is the last error at a namespace that the Tenant does not own. It does not decide the
	// status or the deletion of the Tenant.
	foreign error
	// released is true if a terminating Tenant owns nothing any more.
	released bool
}

// act executes the plan. A failure in one namespace does not stop the others.
func (r *Reconciler) act(ctx context.Context, o *observation, p plan) *result {
	res := &result{reader: outcome{reason: v1beta1.ReasonReconciled}}
	for _, s := range p.steps {
		out, err := r.actOn(ctx, o, s, res)
		out.name = s.name
		if err != nil {
			out.reason, out.detail = reasonFor(err), err.Error()
			res.record(err, "reconciling namespace "+s.name)
		}
		res.outcomes = append(res.outcomes, out)
	}
	if !p.deleting {
		if err := r.ensureReader(ctx, o, res); err != nil {
			res.reader = outcome{reason: reasonFor(err), detail: err.Error()}
			res.record(err, "reconciling the admins' right to read the tenant")
		}
	}
	// The garbage collector would delete namespaces of others with the Tenant. They come after all
	// rights of the Tenant. In a foreground deletion it does not wait for the finalizer.
	for _, ns := range p.disown {
		if err := apply.RemoveOwner(ctx, r.Client, ns, o.tenant.UID); err != nil {
			res.foreign = fmt.Errorf("disowning namespace %s: %w", ns.Name, err)
		}
	}
	if p.deleting {
		r.finalize(ctx, o, res)
	}
	return res
}

// record adds a failure to the result. A Conflict or a denial by the fence requires
// another reconcile, a foreign object requires a user's action, and any other error
// is retried with backoff.
func (res *result) record(err error, doing string) {
	var foreign foreignError
	switch {
	case err == nil, errors.As(err, &foreign), terminatingCause(err):
	case apierrors.IsConflict(err), denial.ByFence(err):
		res.retry = err
	default:
		res.errs = append(res.errs, fmt.Errorf("%s: %w", doing, err))
	}
}

// actOn carries out one step.
func (r *Reconciler) actOn(ctx context.Context, o *observation, s step, res *result) (outcome, error) {
	switch s.action {
	case create:
		return r.createNamespace(ctx, o, s, res)
	case keep:
		return r.keepNamespace(ctx, o, s, res)
	case restrict:
		return outcome{uid: s.live.UID, reason: v1beta1.ReasonInvalidSpec}, r.restrictBinding(ctx, o, o.bindings[s.name], res)
	case wait:
		return outcome{uid: s.live.UID, reason: v1beta1.ReasonNamespaceTerminating, detail: remaining(s.live)},
			r.dropLastingBinding(ctx, o, s.name, res)
	case conflict:
		// The Tenant's own binding is left after an administrator gave the namespace away.
		if binding := o.bindings[s.name]; binding != nil && ownsChild(o.tenant, binding) {
			res.foreign = r.removeBinding(ctx, res, binding)
		}
		return outcome{reason: v1beta1.ReasonNamespaceConflict, advice: handover(o.tenant, s.live)}, nil
	case remove:
		return r.removeNamespace(ctx, o.tenant, s, res)
	case release:
		return r.releaseNamespace(ctx, o, s, res)
	default: // forget
		return outcome{}, r.unbind(ctx, o, s, res)
	}
}

func (r *Reconciler) createNamespace(ctx context.Context, o *observation, s step, res *result) (outcome, error) {
	config := namespaceConfig(s.name, namespaceMeta(o.tenant, r.Options.PodSecurityLevel))
	if err := apply.Create(ctx, r.Client, config); err != nil {
		return outcome{reason: v1beta1.ReasonPending}, err
	}
	res.wrote = true
	res.events = append(res.events,
		about(reporting.Normal(v1beta1.EventNamespaceCreated, "Create", "created namespace %s", s.name), s.name))
	r.metrics.added.Inc()
	out := outcome{uid: *config.UID, reason: v1beta1.ReasonReconciled}
	return out, r.ensureBinding(ctx, o, s.name, nil, res)
}

// keepNamespace corrects the ownership metadata and the admins' binding.
func (r *Reconciler) keepNamespace(ctx context.Context, o *observation, s step, res *result) (outcome, error) {
	out := outcome{uid: s.live.UID, reason: v1beta1.ReasonReconciled}
	want := namespaceMeta(o.tenant, r.Options.PodSecurityLevel)
	live := s.live.DeepCopy()
	// An owner reference to a deleted Tenant makes the garbage collector delete the
	// namespace. An object can also have only one controller.
	if removeOwners(live, func(ref metav1.OwnerReference) bool {
		return isPredecessor(o.tenant, ref) || want.owner == nil && ref.UID == o.tenant.UID
	}) {
		if err := apply.Patch(ctx, r.Client, live, s.live); err != nil {
			return out, err
		}
		res.wrote = true
	}
	if !want.isSetOn(live) {
		if err := apply.Update(ctx, r.Client, live, namespaceConfig(s.name, want)); err != nil {
			return out, err
		}
		res.wrote = true
	}
	return out, r.ensureBinding(ctx, o, s.name, o.bindings[s.name], res)
}

// removeNamespace deletes a namespace. It reads from the API server, since a stale cache
// may show a namespace before it was handed over to another Tenant or orphaned.
func (r *Reconciler) removeNamespace(ctx context.Context, t *v1beta1.Tenant, s step, res *result) (outcome, error) {
	out := outcome{uid: s.live.UID, reason: v1beta1.ReasonNamespaceTerminating}
	// A stale cache may still show a namespace whose deletion was reported already.
	live, err := reconciler.Get(ctx, r.Live, client.ObjectKeyFromObject(s.live), &corev1.Namespace{})
	if err != nil {
		return out, fmt.Errorf("reading namespace %s: %w", s.name, err)
	}
	if live == nil || live.UID != s.live.UID || !live.DeletionTimestamp.IsZero() {
		return out, nil
	}
	if actionFor(false, false, live, ownsNamespace(t, usedNameSet(t), live), removalPolicy(t, live)) != remove {
		return out, apierrors.NewConflict(corev1.Resource("namespaces"), s.name, errors.New("it was given away or orphaned"))
	}
	if err := apply.DeleteUnchanged(ctx, r.Client, live); err != nil {
		return out, err
	}
	res.wrote = true
	res.events = append(res.events,
		about(reporting.Normal(v1beta1.EventNamespaceDeleted, "Delete", "deleting namespace %s with everything in it",
			s.name), s.name))
	r.metrics.removed.Inc()
	return out, nil
}

func (r *Reconciler) deleteChild(ctx context.Context, res *result, child client.Object) error {
	if err := apply.Delete(ctx, r.Client, child); err != nil {
		return err
	}
	res.wrote = true
	return nil
}
