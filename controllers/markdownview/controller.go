// Package markdownview is the MarkdownView kind: its controller and
// webhooks. Its package viewer is the page server.
//
// A reconcile goes: observe (read into one struct), decide (pure), act (apply),
// report (one status write, events on transitions). There is no finalizer: what
// a MarkdownView owns is the garbage collector's to remove, by owner reference.
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
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// askAgain is how often it is asked whether what is in the way has gone. No
// watch tells: the cache holds only what carries our label.
const askAgain = 30 * time.Second

// maxContents is how many reconciles may hold the content of a view at once, each of them
// several copies of it. The others wait.
const maxContents = 2

// Reconciler makes the world agree with a MarkdownView. Make it with New.
type Reconciler struct {
	Client client.Client
	// Live reads past the cache, which does not hold what is not ours.
	Live     client.Reader
	Recorder events.EventRecorder
	Options  Options
	Clock    clock.PassiveClock

	available *prometheus.GaugeVec
	// contents has a place for each reconcile that holds the content of a view.
	contents *semaphore.Weighted
	// looks holds when each view, by key, was last reconciled by this process.
	looks sync.Map
	// own are this process's last writes, by kind.
	own struct {
		views                             reconciler.State
		configMaps, deployments, services reconciler.ReadYourWrites
	}
}

// Reconcile reconciles one MarkdownView.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return reconciler.Reconcile(ctx, r.Client, r.Live, &r.own.views, req.NamespacedName, &v1beta1.MarkdownView{},
		func() { r.forget(req.NamespacedName) },
		func(ctx context.Context, v *v1beta1.MarkdownView) (ctrl.Result, error) {
			// What it owns goes with it. Making that anew would only keep it from going.
			if !v.DeletionTimestamp.IsZero() {
				return ctrl.Result{}, nil
			}
			result, err := r.reconcile(ctx, v)
			if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				r.looks.Store(req.NamespacedName, r.Clock.Now())
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
	if res.leaving {
		return ctrl.Result{}, nil
	}
	// What was refused because it had changed meanwhile, or because another
	// replica leads, says nothing about the view; the reconcile that follows at once
	// will have seen the change.
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
		return ctrl.Result{RequeueAfter: min(askAgain, r.Options.SyncPeriod)}, nil
	}
	return ctrl.Result{}, nil
}

// carryOut reads what the view shows, which the cache does not hold, and acts on the plan.
// A plan that changes nothing needs no contents.
func (r *Reconciler) carryOut(ctx context.Context, o *observation, p plan) (*result, error) {
	if !p.writes() {
		return r.act(ctx, o, p, children{}), nil
	}
	if err := r.contents.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting to read the content: %w", err)
	}
	defer r.contents.Release(1)
	live, err := r.stillWanted(ctx, o.view)
	if err != nil {
		return nil, err
	}
	return r.act(ctx, o, p, render(live, r.Options.DefaultViewerImage)), nil
}

// stillWanted makes sure of the view before something is made or changed for it, and returns
// it in full. A cache that is late would have us put back what the garbage collector
// removes, or roll out what the view showed before.
func (r *Reconciler) stillWanted(ctx context.Context, v *v1beta1.MarkdownView) (*v1beta1.MarkdownView, error) {
	live, err := reconciler.Get(ctx, r.Live, client.ObjectKeyFromObject(v), &v1beta1.MarkdownView{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading markdownview: %w", err)
	case live == nil || live.UID != v.UID || live.Generation != v.Generation || !live.DeletionTimestamp.IsZero():
		return nil, apierrors.NewConflict(v1beta1.GroupVersion.WithResource("markdownviews").GroupResource(), v.Name, errStale)
	}
	return live, nil
}

// report writes the status if it changed, and then records what that was worth.
func (r *Reconciler) report(ctx context.Context, o *observation, p plan, res *result) error {
	v := o.view
	before := v.DeepCopy()
	v.Status = summarize(o, p, res, r.Clock.Now())
	if !equality.Semantic.DeepEqual(before.Status, v.Status) {
		if err := r.own.views.PatchStatus(ctx, r.Client, v, before); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	}
	reporting.Flush(r.Recorder, v, transitions(o, v.Status, res))
	serves := 0.0
	if reporting.FindCondition(v.Status.Conditions, v1beta1.ConditionAvailable).Status == metav1.ConditionTrue {
		serves = 1
	}
	r.available.WithLabelValues(v.Namespace, v.Name).Set(serves)
	return nil
}

// forget drops all that is known of a view that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.looks.Delete(key)
	r.own.configMaps.Forget(types.NamespacedName{Namespace: key.Namespace, Name: contentPrefix + key.Name})
	r.own.deployments.Forget(types.NamespacedName{Namespace: key.Namespace, Name: viewerPrefix + key.Name})
	r.own.services.Forget(types.NamespacedName{Namespace: key.Namespace, Name: viewerPrefix + key.Name})
	r.available.DeleteLabelValues(key.Namespace, key.Name)
}
