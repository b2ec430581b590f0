// SPDX-License-Identifier: Apache-2.0

// Package markdownview implements the controller and the webhook of the MarkdownView kind. Its
// package viewer is the web server of the pages.
//
// There is no finalizer: the garbage collector deletes the children of a MarkdownView by their
// owner references.
package markdownview

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// Reconciler reconciles MarkdownViews. New returns a valid one. Its cache holds no foreign objects and no texts.
type Reconciler struct {
	reconciler.Base

	Options Options
	metrics *metrics
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, err := reconciler.Get(ctx, r.Client, req.NamespacedName, &v1beta1.MarkdownView{})
	switch {
	case err != nil:
		return reconciler.Finish(ctrl.Result{}, fmt.Errorf("reading markdownview: %w", err))
	case v == nil:
		r.metrics.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	return reconciler.Finish(r.reconcile(ctx, v))
}

// reconcile observes (reads into one struct), decides (pure, a plan of steps), acts (carries out the plan) and
// reports (one status write, events).
func (r *Reconciler) reconcile(ctx context.Context, v *v1beta1.MarkdownView) (ctrl.Result, error) {
	if reconciler.Paused(v) {
		return ctrl.Result{}, r.reportPaused(ctx, v)
	}
	if r.idle(v) {
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

// idle reports whether a view needs nothing: the garbage collector deletes the children of one that is being deleted.
// Creating them again would block it.
func (r *Reconciler) idle(v *v1beta1.MarkdownView) bool { return !v.DeletionTimestamp.IsZero() }
