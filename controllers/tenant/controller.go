// SPDX-License-Identifier: Apache-2.0

// Package tenant implements the controller and the webhooks of the Tenant kind.
package tenant

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// Reconciler reconciles Tenants. New returns a valid one.
type Reconciler struct {
	reconciler.Base

	Options Options
	metrics *metrics
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, err := reconciler.Get(ctx, r.Client, req.NamespacedName, &v1beta1.Tenant{})
	switch {
	case err != nil:
		return reconciler.Finish(ctrl.Result{}, fmt.Errorf("reading the tenant: %w", err))
	case t == nil:
		r.metrics.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	return reconciler.Finish(r.reconcile(ctx, t))
}

// reconcile adds the finalizer before any child is created. Then it observes (reads into one struct), decides (pure, a
// plan of steps), acts (carries out the plan) and reports (one status write, events).
func (r *Reconciler) reconcile(ctx context.Context, t *v1beta1.Tenant) (ctrl.Result, error) {
	if reconciler.Paused(t) {
		return ctrl.Result{}, r.reportPaused(ctx, t)
	}
	if r.idle(t) {
		return ctrl.Result{}, nil
	}
	if err := r.AddFinalizer(ctx, t, v1beta1.TenantFinalizer); err != nil {
		return ctrl.Result{}, r.fail(ctx, t, err)
	}
	o, err := r.observe(ctx, t)
	if err != nil {
		return ctrl.Result{}, r.fail(ctx, t, err)
	}
	p := decide(o)
	res, err := r.act(ctx, o, p)
	if err != nil {
		return ctrl.Result{}, r.fail(ctx, t, err)
	}
	return r.report(ctx, o, p, res)
}

// idle reports whether the operator owns nothing of a Tenant any more.
func (r *Reconciler) idle(t *v1beta1.Tenant) bool {
	return !t.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(t, v1beta1.TenantFinalizer)
}
