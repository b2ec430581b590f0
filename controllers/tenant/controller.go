// SPDX-License-Identifier: Apache-2.0

// Package tenant implements the controller and the webhooks of the Tenant kind.
package tenant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/denial"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// Reconciler reconciles Tenants. New returns a valid one.
type Reconciler struct {
	Client   client.Client
	Live     client.Reader // reads from the API server, for decisions that cannot be undone
	Recorder events.EventRecorder
	Options  Options
	Clock    clock.PassiveClock
	metrics  *metrics
}

// Reconcile implements reconcile.Reconciler. It observes (reads into one struct), decides (pure, a plan of
// steps), acts (carries out the plan) and reports (one status write, events on transitions).
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, err := reconciler.Get(ctx, r.Client, req.NamespacedName, &v1beta1.Tenant{})
	switch {
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the tenant: %w", err)
	case t == nil:
		r.metrics.forget(req.Name)
		return ctrl.Result{}, nil
	case reconciler.Paused(t):
		return reconciler.Finish(ctrl.Result{}, r.pause(ctx, t))
	case !t.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(t, v1beta1.TenantFinalizer):
		return ctrl.Result{}, nil // the operator owns nothing of it any more
	}
	if err := r.guard(ctx, t); err != nil {
		return reconciler.Finish(ctrl.Result{}, r.fail(ctx, t, err))
	}
	o, err := r.observe(ctx, t)
	if err != nil {
		return reconciler.Finish(ctrl.Result{}, r.fail(ctx, t, err))
	}
	p := decide(o, r.Options)
	if err := r.declare(ctx, t, p.creates); err != nil {
		return reconciler.Finish(ctrl.Result{}, r.fail(ctx, t, err))
	}
	res := r.act(ctx, o, p)
	return reconciler.Finish(ctrl.Result{}, r.report(ctx, o, p, res))
}

// guard adds the finalizer before any child is created.
func (r *Reconciler) guard(ctx context.Context, t *v1beta1.Tenant) error {
	base := t.DeepCopy()
	if !t.DeletionTimestamp.IsZero() || !controllerutil.AddFinalizer(t, v1beta1.TenantFinalizer) {
		return nil
	}
	if err := apply.Patch(ctx, r.Client, t, base); err != nil {
		return fmt.Errorf("adding finalizer: %w", err)
	}
	return nil
}

// declare records in the status the names of the namespaces that act then creates. The write carries the
// resource version that was read, so nothing is created for a Tenant that has changed or was deleted since.
func (r *Reconciler) declare(ctx context.Context, t *v1beta1.Tenant, creates []string) error {
	if len(creates) == 0 {
		return nil
	}
	if declared(t, creates) {
		// An earlier reconcile recorded the names, and the Tenant may have changed since.
		return reconciler.VerifyUnchanged(ctx, r.Live, t, &v1beta1.Tenant{})
	}
	before := t.DeepCopy()
	t.Status = intent(t, creates, r.Clock.Now())
	if err := apply.PatchStatus(ctx, r.Client, t, before); err != nil {
		return fmt.Errorf("recording the names of the namespaces to create: %w", err)
	}
	return nil
}

// report writes the status if it changed, and records events. It removes the finalizer of a terminating
// Tenant that owns nothing any more. It returns the error that requires another reconcile.
func (r *Reconciler) report(ctx context.Context, o *observation, p plan, res *result) error {
	t := o.tenant
	before := t.DeepCopy()
	reporting.Flush(r.Recorder, t, res.events)
	if res.released {
		controllerutil.RemoveFinalizer(t, v1beta1.TenantFinalizer)
		if err := client.IgnoreNotFound(apply.Patch(ctx, r.Client, t, before)); err != nil {
			return fmt.Errorf("removing finalizer: %w", err)
		}
		return r.awaitRelease(ctx, t)
	}
	if res.retry != nil { // no failure of the Tenant; the next reconcile follows soon and reads the change
		return res.retry
	}
	t.Status = summarize(o, p, res, r.Clock.Now())
	if err := r.writeStatus(ctx, t, before); err != nil {
		return err
	}
	reporting.Flush(r.Recorder, t, transitions(o.before, t.Status, res.wrote))
	return kerrors.NewAggregate(res.errs)
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

// writeStatus writes the status if it differs from that of before, and sets the gauges.
func (r *Reconciler) writeStatus(ctx context.Context, t, before *v1beta1.Tenant) error {
	ready := 0.0
	if meta.IsStatusConditionTrue(t.Status.Conditions, v1beta1.ConditionReady) {
		ready = 1
	}
	r.metrics.ready.WithLabelValues(t.Name).Set(ready)
	r.metrics.namespaces.WithLabelValues(t.Name).Set(float64(len(ownedNames(t))))
	if equality.Semantic.DeepEqual(before.Status, t.Status) {
		return nil
	}
	ctx, cancel := reconciler.ReportContext(ctx)
	defer cancel()
	if err := apply.PatchStatus(ctx, r.Client, t, before); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	return nil
}

// fail reports an error that prevents a reconcile, and returns it. The former status would claim what was not
// checked, and a new Tenant would have none.
func (r *Reconciler) fail(ctx context.Context, t *v1beta1.Tenant, err error) error {
	if apierrors.IsConflict(err) || denial.ByFence(err) || errors.Is(err, context.Canceled) {
		return err
	}
	before := t.DeepCopy()
	t.Status.ObservedGeneration = t.Generation
	setReady(&t.Status, t.Generation, r.Clock.Now(), notReady(reasonFor(err), err.Error()))
	if statusErr := r.writeStatus(ctx, t, before); statusErr != nil {
		return reconciler.Failed(err, statusErr)
	}
	reporting.Flush(r.Recorder, t, transitions(before.Status, t.Status, false))
	return err
}

// pause reports that an annotation suspends the Tenant. It leaves the other conditions as they are.
func (r *Reconciler) pause(ctx context.Context, t *v1beta1.Tenant) error {
	before := t.DeepCopy()
	reporting.SetPaused(&t.Status.Conditions, t.Generation, r.Clock.Now(),
		"reconciliation of this Tenant is paused, even if the Tenant is being deleted,")
	return r.writeStatus(ctx, t, before)
}
