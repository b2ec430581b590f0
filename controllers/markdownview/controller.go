// SPDX-License-Identifier: Apache-2.0

// Package markdownview implements the controller and the webhook of the MarkdownView kind. Its
// package viewer is the web server of the pages.
//
// There is no finalizer: the garbage collector deletes the children of a MarkdownView by their
// owner references.
package markdownview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// blockedPeriod is the pause before a blocked view is reconciled again. The cache holds only
// objects with the operator's label, so no watch event reports the deletion of a foreign one.
const blockedPeriod = 30 * time.Second

// Reconciler reconciles MarkdownViews. New returns a valid one.
type Reconciler struct {
	// Client reads from the manager's cache, which has each object that this client wrote.
	Client client.Client
	// Live reads from the API server. The cache holds no foreign objects and no texts.
	Live     client.Reader
	Recorder events.EventRecorder
	Options  Options
	Clock    clock.PassiveClock

	available *prometheus.GaugeVec
}

// Reconcile implements reconcile.Reconciler: observe, decide, act, report.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v := &v1beta1.MarkdownView{}
	if err := r.Client.Get(ctx, req.NamespacedName, v); err != nil {
		if apierrors.IsNotFound(err) {
			r.available.DeleteLabelValues(req.Namespace, req.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading markdownview: %w", err)
	}
	if reconciler.Paused(v) {
		return reconciler.Finish(ctrl.Result{}, r.report(ctx, v, paused(v, r.Clock.Now()), plan{}))
	}
	// The garbage collector deletes the children. Creating them again would block it.
	if !v.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	o, err := r.observe(ctx, v)
	if err != nil {
		return r.fail(ctx, v, err)
	}
	p := decide(o)
	res, err := r.act(ctx, o, p)
	if err != nil {
		return r.fail(ctx, v, err)
	}
	for _, c := range corrections(o, p, res) {
		reporting.Flush(r.Recorder, v, []reporting.PendingEvent{c.event(v)})
	}
	if res.terminating {
		return ctrl.Result{}, nil
	}
	// A Conflict or a denial by the fence is no failure of the view, so the status does not report
	// it. After a Conflict a new view gets its first status; only then observe reads past the cache.
	if res.retry != nil && (v.Status.ObservedGeneration > 0 || !apierrors.IsConflict(res.retry)) {
		return reconciler.Finish(ctrl.Result{}, res.retry)
	}
	if err := r.report(ctx, v, summarize(o, p, res, r.Clock.Now()), p); err != nil || res.retry != nil {
		return reconciler.Finish(ctrl.Result{}, errors.Join(res.retry, err))
	}
	if len(res.errs) == 0 && len(p.with(wait, conflict)) > 0 {
		return ctrl.Result{RequeueAfter: blockedPeriod}, nil
	}
	return reconciler.Finish(ctrl.Result{}, errors.Join(res.errs...))
}

// fail reports an error that prevented the reconcile. A Conflict is none: the view has changed.
func (r *Reconciler) fail(ctx context.Context, v *v1beta1.MarkdownView, err error) (ctrl.Result, error) {
	if !apierrors.IsConflict(err) {
		err = reconciler.Failed(err, r.report(ctx, v, failed(v, err, r.Clock.Now()), plan{}))
	}
	return reconciler.Finish(ctrl.Result{}, err)
}

// report writes the status if it changed, and records events for the transitions.
func (r *Reconciler) report(ctx context.Context, v *v1beta1.MarkdownView, status v1beta1.MarkdownViewStatus,
	p plan) error {
	before := v.DeepCopy()
	v.Status = status
	serves := 0.0
	if reporting.FindCondition(status.Conditions, v1beta1.ConditionAvailable).Status == metav1.ConditionTrue {
		serves = 1
	}
	r.available.WithLabelValues(v.Namespace, v.Name).Set(serves)
	if equality.Semantic.DeepEqual(before.Status, status) {
		return nil
	}
	ctx, cancel := reconciler.ReportContext(ctx)
	defer cancel()
	if err := apply.PatchStatus(ctx, r.Client, v, before); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	reporting.Flush(r.Recorder, v, transitions(before, v, p))
	return nil
}
