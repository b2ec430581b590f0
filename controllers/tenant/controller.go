// SPDX-License-Identifier: Apache-2.0

// Package tenant implements the controller and the webhooks of the Tenant kind.
package tenant

import (
	"context"

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
	return reconciler.Run(ctx, r.Client, req, &v1beta1.Tenant{}, reconciler.Steps[*v1beta1.Tenant]{
		Forget: r.metrics.forget, Pause: r.reportPaused, Reconcile: r.reconcile})
}

// reconcile adds the finalizer before any child is created.
func (r *Reconciler) reconcile(ctx context.Context, t *v1beta1.Tenant) (ctrl.Result, error) {
	if !t.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(t, v1beta1.TenantFinalizer) {
		return ctrl.Result{}, nil // the operator owns nothing of it any more
	}
	if err := r.AddFinalizer(ctx, t, v1beta1.TenantFinalizer); err != nil {
		return ctrl.Result{}, r.fail(ctx, t, err)
	}
	o, err := r.observe(ctx, t)
	if err != nil {
		return ctrl.Result{}, r.fail(ctx, t, err)
	}
	res, err := r.act(ctx, o, decide(o))
	if err != nil {
		return ctrl.Result{}, r.fail(ctx, t, err)
	}
	return r.report(ctx, o, res)
}
