// Package markdownview implements the controller and the webhook of the MarkdownView kind. Its
// package viewer is the web server of the pages.
//
// A reconcile runs these steps in order: observe (read into one struct), decide (pure), act
// (apply), report (one status write, events on transitions). There is no finalizer: the garbage
// collector deletes the children of a MarkdownView by their owner references.
package markdownview

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// blockedPeriod bounds the pause before a blocked view is reconciled again. The cache holds only
// objects with the operator's label, so no watch event reports the deletion of a foreign one.
const blockedPeriod = 30 * time.Second

// maxContents bounds the reconciles that hold the content of a view at the same time. Each of them
// has several copies of it. The others wait.
const maxContents = 2

// Reconciler reconciles MarkdownViews. New returns a valid one.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server. The cache does not hold foreign objects and contents.
	Live     client.Reader
	Recorder events.EventRecorder
	Options  Options
	Clock    clock.PassiveClock

	available *prometheus.GaugeVec
	// contents has one slot for each reconcile that may hold the content of a view.
	contents *semaphore.Weighted
	// lastReconciled maps the key of a view to the time.Time of its last reconcile in this process.
	lastReconciled sync.Map
	// own holds the resource versions of this process's writes, by kind.
	own struct {
		views                             reconciler.State
		configMaps, deployments, services reconciler.ReadYourWrites
	}
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return reconciler.Reconcile(ctx, r.Client, r.Live, &r.own.views, req.NamespacedName, &v1beta1.MarkdownView{},
		func() { r.forget(req.NamespacedName) },
		func(ctx context.Context, v *v1beta1.MarkdownView) (ctrl.Result, error) {
			// The garbage collector deletes the children. Creating them again would block it.
			if !v.DeletionTimestamp.IsZero() {
				return ctrl.Result{}, nil
			}
			result, err := r.reconcile(ctx, v)
			if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				r.lastReconciled.Store(req.NamespacedName, r.Clock.Now())
			}
			return result, err
		})
}

func (r *Reconciler) reconcile(ctx context.Context, v *v1beta1.MarkdownView) (ctrl.Result, error) {
	o, err := r.observe(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	p, err := decide(o)
	if err != nil {
		return ctrl.Result{}, err
	}
	res, err := r.carryOut(ctx, o, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	reporting.Flush(r.Recorder, v, corrections(o, p, res))
	if res.terminating {
		return ctrl.Result{}, nil
	}
	// A Conflict or a denial by the fence is no failure of the view, so the status does not report
	// it. The next reconcile follows at once and reads the change.
	if res.retry != nil {
		return ctrl.Result{}, res.retry
	}
	if err := r.report(ctx, o, p, res); err != nil {
		return ctrl.Result{}, err
	}
	if len(res.errs) > 0 {
		return ctrl.Result{}, kerrors.NewAggregate(res.errs)
	}
	if res.blocked() {
		return ctrl.Result{RequeueAfter: min(blockedPeriod, r.Options.SyncPeriod)}, nil
	}
	return ctrl.Result{}, nil
}

// carryOut reads the content of the view, which the cache does not hold, and executes the plan. A
// plan that writes nothing needs no content.
func (r *Reconciler) carryOut(ctx context.Context, o *observation, p plan) (*result, error) {
	if !p.writes() {
		return r.act(ctx, o, p, children{}), nil
	}
	if err := r.contents.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting to read the content: %w", err)
	}
	defer r.contents.Release(1)
	live, err := r.readUnchanged(ctx, o.view)
	if err != nil {
		return nil, err
	}
	return r.act(ctx, o, p, render(live, r.Options.DefaultViewerImage)), nil
}

// readUnchanged reads the whole view before a child is written, and returns a Conflict if the view
// has changed since the cached state. With a stale cache the operator would create again what the
// garbage collector deletes, or roll out an old content.
func (r *Reconciler) readUnchanged(ctx context.Context, v *v1beta1.MarkdownView) (*v1beta1.MarkdownView, error) {
	live, err := reconciler.Get(ctx, r.Live, client.ObjectKeyFromObject(v), &v1beta1.MarkdownView{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading markdownview: %w", err)
	case live == nil || live.UID != v.UID || live.Generation != v.Generation || !live.DeletionTimestamp.IsZero():
		return nil, apierrors.NewConflict(v1beta1.GroupVersion.WithResource("markdownviews").GroupResource(),
			v.Name, errStale)
	}
	return live, nil
}

// report writes the status if it changed, and records events for the transitions.
func (r *Reconciler) report(ctx context.Context, o *observation, p plan, res *result) error {
	v := o.view
	before := v.DeepCopy()
	v.Status = summarize(o, p, res, r.Clock.Now())
	serves := 0.0
	if reporting.FindCondition(v.Status.Conditions, v1beta1.ConditionAvailable).Status == metav1.ConditionTrue {
		serves = 1
	}
	r.available.WithLabelValues(v.Namespace, v.Name).Set(serves)
	err := r.writeStatus(ctx, v, before)
	if apply.TooLarge(err) {
		v.Status = tooLargeStatus(v, before.Status, r.Clock.Now())
		if err = r.writeStatus(ctx, v, before); err == nil || apply.TooLarge(err) {
			reporting.Flush(r.Recorder, v, tooLargeEvents(before.Status, err))
		}
		return err
	}
	if err != nil {
		return err
	}
	reporting.Flush(r.Recorder, v, transitions(o, v.Status, res))
	return nil
}

// writeStatus writes the status of v unless it is equal to before's.
func (r *Reconciler) writeStatus(ctx context.Context, v, before *v1beta1.MarkdownView) error {
	if equality.Semantic.DeepEqual(before.Status, v.Status) {
		return nil
	}
	if err := r.own.views.PatchStatus(ctx, r.Client, v, before); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	return nil
}

// forget drops the state of a deleted view.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.lastReconciled.Delete(key)
	r.own.configMaps.Forget(types.NamespacedName{Namespace: key.Namespace, Name: contentPrefix + key.Name})
	r.own.deployments.Forget(types.NamespacedName{Namespace: key.Namespace, Name: viewerPrefix + key.Name})
	r.own.services.Forget(types.NamespacedName{Namespace: key.Namespace, Name: viewerPrefix + key.Name})
	r.available.DeleteLabelValues(key.Namespace, key.Name)
}
