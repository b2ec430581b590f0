// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/failure"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// state is how a namespace is after its step, or the admins' permission to read their Tenant if that failed.
type state struct {
	name   string    // of the namespace; "" for the right
	uid    types.UID // of the owned namespace; "" if none
	reason string    // a reason of the API; "" drops the name from the status
	detail string    // human-readable; may be empty
}

// result is how a reconcile ended.
type result struct {
	reconciler.Errors

	states   []state
	wrote    bool                     // at least one child was changed
	events   []reporting.PendingEvent // changes of single objects
	released bool                     // the terminating Tenant owns nothing any more
	// confirm asks the API server, once, whether the spec is as it was read. It is called before a child that exists is
	// changed, and before one that was deleted is made again: the cached Tenant may be older than the child.
	confirm func() error
}

// act declares what the plan creates, and carries it out. A failure in one namespace does not stop the others. Nothing
// is done for a Tenant that has changed since it was read.
func (r *Reconciler) act(ctx context.Context, o *observation, p plan) (*result, error) {
	if err := r.declare(ctx, o.tenant, p.creates); err != nil {
		return nil, err
	}
	res := &result{confirm: sync.OnceValue(func() error {
		return reconciler.Verify(ctx, r.Live, o.tenant, &v1beta1.Tenant{}, reconciler.SameSpec)
	})}
	for _, s := range p.steps {
		ns, err := r.actOn(ctx, o, s, res)
		ns.name = s.name
		if err != nil {
			ns.reason, ns.detail = failure.Of(err).Reason, err.Error()
			res.Record(fmt.Errorf("reconciling namespace %s: %w", s.name, err))
		}
		res.states = append(res.states, ns)
	}
	if o.deleting() {
		r.removeReader(ctx, o, res)
	} else if err := r.ensureReader(ctx, o, res); err != nil {
		res.states = append(res.states, state{reason: failure.Of(err).Reason, detail: err.Error()})
		res.Record(fmt.Errorf("reconciling the admins' permission to read the Tenant: %w", err))
	}
	reporting.Flush(r.Recorder, o.tenant, res.events)
	if o.deleting() && res.Join(nil) == nil && !slices.ContainsFunc(res.states, isHeld) {
		err := r.RemoveFinalizer(ctx, o.tenant, v1beta1.TenantFinalizer)
		if err == nil {
			err = r.awaitRelease(ctx, o.tenant)
		}
		res.Record(err)
		res.released = err == nil
	}
	return res, nil
}

// isHeld reports whether a name stays in the status.
func isHeld(ns state) bool { return ns.reason != "" }

// declare records in the status the names of the namespaces that act then creates. The write carries the
// resource version that was read, so nothing is created for a Tenant that has changed or was deleted since.
func (r *Reconciler) declare(ctx context.Context, t *v1beta1.Tenant, creates []string) error {
	if len(creates) == 0 {
		return nil
	}
	if declared(t, creates) {
		// An earlier reconcile recorded the names, and the Tenant may have changed since.
		return reconciler.Verify(ctx, r.Live, t, &v1beta1.Tenant{}, reconciler.SameVersion)
	}
	after := t.DeepCopy()
	after.Status = intent(t, creates, r.Clock.Now())
	if err := apply.PatchStatus(ctx, r.Client, after, t); err != nil {
		return fmt.Errorf("recording the names of the namespaces to create: %w", err)
	}
	*t = *after
	return nil
}

// declared reports whether the status records every name without a UID for this generation.
func declared(t *v1beta1.Tenant, creates []string) bool {
	status := recorded(t)
	return t.Status.ObservedGeneration == t.Generation && !slices.ContainsFunc(creates, func(name string) bool {
		ns, isRecorded := status[name]
		return !isRecorded || ns.UID != ""
	})
}

// settled reports whether the namespace was as desired for this generation of the Tenant. Then another client,
// or a flag of the operator, caused the difference.
func settled(o *observation, s step) bool {
	return o.before.ObservedGeneration == o.tenant.Generation && s.before == v1beta1.ReasonReconciled
}

// changed records a change of a namespace, and its event.
func (res *result) changed(name string, event reporting.PendingEvent) {
	res.wrote = true
	res.events = append(res.events, event.About(&corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: name}))
}

func (r *Reconciler) actOn(ctx context.Context, o *observation, s step, res *result) (state, error) {
	binding := o.bindings[s.name]
	switch s.action {
	case create:
		return r.createNamespace(ctx, o, s, res)
	case keep:
		return r.keepNamespace(ctx, o, s, res)
	case restrict:
		return state{uid: s.live.UID, reason: v1beta1.ReasonInvalidSpec}, r.restrictBinding(ctx, o.tenant, binding, res)
	case await:
		ns := state{uid: s.live.UID, reason: v1beta1.ReasonNamespaceTerminating, detail: remaining(s.live)}
		// A finalizer would keep the binding and its rights. Otherwise the admins keep theirs until the
		// namespace controller deletes the binding: they may have to remove what blocks the namespace.
		if binding != nil && len(binding.Finalizers) > 0 {
			return ns, r.removeBinding(ctx, res, binding)
		}
		return ns, r.restrictBinding(ctx, o.tenant, binding, res)
	case conflict:
		ns := state{reason: v1beta1.ReasonNamespaceConflict, detail: handoverAdvice(o.tenant, s.live)}
		if !s.live.DeletionTimestamp.IsZero() { // as of a Tenant that was deleted just before; only time helps
			ns = state{reason: v1beta1.ReasonNamespaceTerminating, detail: remaining(s.live)}
		}
		// The Tenant's own binding is left after an administrator gave the namespace away.
		if binding != nil && ownsChild(o.tenant, binding) {
			return ns, r.removeBinding(ctx, res, binding)
		}
		return ns, nil
	case remove:
		return r.removeNamespace(ctx, s, res)
	case release:
		return r.releaseNamespace(ctx, o, s, res)
	default: // forget
		return state{}, r.unbind(ctx, o, s, res)
	}
}

func (r *Reconciler) createNamespace(ctx context.Context, o *observation, s step, res *result) (state, error) {
	config := configOf(corev1ac.Namespace(s.name), metav1.PartialObjectMetadata{
		ObjectMeta: namespaceMeta(o.tenant, s.name, r.Options.PodSecurityLevel)})
	if err := apply.Create(ctx, r.Client, config); err != nil {
		return state{reason: v1beta1.ReasonPending}, err
	}
	res.changed(s.name, reporting.Normal(v1beta1.EventNamespaceCreated, "Create", "created namespace %s", s.name))
	r.metrics.added.Inc()
	return state{uid: *config.UID, reason: v1beta1.ReasonReconciled}, r.ensureBinding(ctx, o, s, res)
}

// keepNamespace corrects the ownership metadata and the admins' binding.
func (r *Reconciler) keepNamespace(ctx context.Context, o *observation, s step, res *result) (state, error) {
	ns := state{uid: s.live.UID, reason: v1beta1.ReasonReconciled}
	want := namespaceMeta(o.tenant, s.name, stricterLevel(r.Options.PodSecurityLevel, s.live))
	live := s.live.DeepCopy()
	var fields []string
	// An owner reference to a deleted Tenant makes the garbage collector delete the namespace. An object can
	// also have only one controller.
	removed := removeOwners(live, func(ref metav1.OwnerReference) bool {
		return isPredecessor(o.tenant, ref) || want.OwnerReferences == nil && ref.UID == o.tenant.UID
	})
	missing := drift(live, want)
	if removed || len(missing) > 0 {
		if err := res.confirm(); err != nil {
			return ns, err
		}
	}
	if removed {
		if err := apply.Patch(ctx, r.Client, live, s.live); err != nil {
			return ns, err
		}
		res.wrote = true
		fields = append(fields, "the operator removed an owner reference that would have made the garbage collector "+
			"delete the namespace")
	}
	var lost error
	if len(missing) > 0 {
		config := configOf(corev1ac.Namespace(s.name), metav1.PartialObjectMetadata{ObjectMeta: want})
		if err := apply.Update(ctx, r.Client, live, config); err != nil {
			return ns, err
		}
		if *config.ResourceVersion == live.ResourceVersion { // the write had no effect
			lost, missing = errMutated, nil
		}
		res.wrote = true
		fields = append(fields, missing...)
	}
	if len(fields) > 0 && settled(o, s) {
		res.changed(s.name, reporting.Corrected("namespace "+s.name+", on which the operator enforces the ownership "+
			"metadata and the minimum Pod Security level of its flag --tenant-pod-security-level", fields))
	}
	return ns, errors.Join(lost, r.ensureBinding(ctx, o, s, res))
}

func (r *Reconciler) removeNamespace(ctx context.Context, s step, res *result) (state, error) {
	ns := state{uid: s.live.UID, reason: v1beta1.ReasonNamespaceTerminating}
	if err := apply.DeleteUnchanged(ctx, r.Client, s.live); err != nil {
		return ns, err
	}
	res.changed(s.name, reporting.Normal(v1beta1.EventNamespaceDeleted, "Delete",
		"deleting namespace %s with everything in it", s.name))
	r.metrics.removed.Inc()
	return ns, nil
}

// releaseNamespace deletes the admins' binding and then removes the ownership metadata. A namespace without
// ownership metadata is not reconciled, so the binding goes first.
func (r *Reconciler) releaseNamespace(ctx context.Context, o *observation, s step, res *result) (state, error) {
	ns := state{uid: s.live.UID, reason: v1beta1.ReasonPending}
	if err := r.unbind(ctx, o, s, res); err != nil {
		return ns, err
	}
	bare := s.live.DeepCopy()
	if !removeOwnershipMeta(o.tenant, bare) {
		return state{}, nil
	}
	if err := apply.Patch(ctx, r.Client, bare, s.live); err != nil {
		return ns, client.IgnoreNotFound(err)
	}
	res.changed(s.name, reporting.Normal(v1beta1.EventNamespaceRetained, "Release",
		"kept namespace %s, and removed the ownership labels and the admins' RoleBinding", s.name))
	r.metrics.removed.Inc()
	return state{}, nil
}

// unbind deletes the Tenant's binding from a namespace before its name leaves the status. It verifies that
// at the API server, since no later reconcile looks for the binding: the cache may not show it yet, and
// another client may have added a finalizer. In a namespace of another owner only the Tenant's own
// binding counts.
func (r *Reconciler) unbind(ctx context.Context, o *observation, s step, res *result) error {
	if s.live == nil {
		return nil
	}
	counts := func(b *rbacv1.RoleBinding) bool { return b != nil && (s.action == release || ownsChild(o.tenant, b)) }
	if binding := o.bindings[s.name]; counts(binding) {
		if err := r.removeBinding(ctx, res, binding); err != nil {
			return err
		}
	}
	key := client.ObjectKey{Namespace: s.name, Name: adminBindingName}
	left, err := reconciler.Get(ctx, r.Live, key, &rbacv1.RoleBinding{})
	if err != nil {
		return fmt.Errorf("reading role binding %s: %w", key, err)
	}
	if !counts(left) {
		return nil
	}
	if err := r.removeBinding(ctx, res, left); err != nil {
		return err
	}
	return apierrors.NewConflict(rbacv1.Resource("rolebindings"), adminBindingName,
		fmt.Errorf("the RoleBinding still exists in namespace %s", s.name))
}

// removeReader removes the reader role and binding after the last namespace is deleted or released.
func (r *Reconciler) removeReader(ctx context.Context, o *observation, res *result) {
	if slices.ContainsFunc(res.states, isHeld) {
		return
	}
	if o.reader != nil && ownsReader(o.tenant, o.reader) {
		if err := apply.Delete(ctx, r.Client, o.reader); err != nil {
			res.Record(fmt.Errorf("deleting cluster role %s: %w", o.reader.Name, err))
		}
	}
	if o.readerBinding != nil && ownsReader(o.tenant, o.readerBinding) {
		if err := apply.Delete(ctx, r.Client, o.readerBinding); err != nil {
			res.Record(fmt.Errorf("deleting cluster role binding %s: %w", o.readerBinding.Name, err))
		}
	}
}

// How often and how long to look for the removed finalizer in the cache.
const releasePoll, releaseTimeout = 5 * time.Millisecond, time.Second

// awaitRelease waits until the cache shows that the finalizer is gone. The client waits only for writes that
// leave a new version, and a queued event would repeat the reads and the patch of the last reconcile.
func (r *Reconciler) awaitRelease(ctx context.Context, t *v1beta1.Tenant) error {
	err := wait.PollUntilContextTimeout(ctx, releasePoll, releaseTimeout, true, func(ctx context.Context) (bool, error) {
		cached, err := reconciler.Get(ctx, r.Client, client.ObjectKeyFromObject(t), &v1beta1.Tenant{})
		return cached == nil || !controllerutil.ContainsFinalizer(cached, v1beta1.TenantFinalizer), err
	})
	if wait.Interrupted(err) {
		return nil
	}
	return err
}
