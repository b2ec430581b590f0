// SPDX-License-Identifier: Apache-2.0

// Package markdownview implements the controller and the webhook of the MarkdownView kind. Its
// package viewer is the web server of the pages.
//
// There is no finalizer: the garbage collector deletes the children of a MarkdownView by their
// owner references.
package markdownview

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// Reconciler reconciles MarkdownViews. New returns a valid one. Its cache holds no foreign objects and no texts.
type Reconciler struct {
	reconciler.Base

	Options   Options
	available *prometheus.GaugeVec
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return reconciler.Run(ctx, r.Client, req, &v1beta1.MarkdownView{}, reconciler.Steps[*v1beta1.MarkdownView]{
		Forget: r.forget, Pause: r.reportPaused, Reconcile: r.reconcile})
}

// reconcile leaves a view that is being deleted to the garbage collector. Creating its children again would block
// the deletion.
func (r *Reconciler) reconcile(ctx context.Context, v *v1beta1.MarkdownView) (ctrl.Result, error) {
	if !v.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	o, err := r.observe(ctx, v)
	if err != nil {
		return ctrl.Result{}, r.fail(ctx, v, err)
	}
	p := decide(o)
	res, err := r.act(ctx, o, p)
	if err != nil {
		return ctrl.Result{}, r.fail(ctx, v, err)
	}
	return r.report(ctx, o, p, res)
}
