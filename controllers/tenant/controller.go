// Package tenant is the Tenant kind: its controller and webhooks.
//
// A reconcile goes: guard, observe (read into one struct), decide (pure), act
// (apply and delete), report (one status write, events on transitions).
package tenant

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// Reconciler makes the world agree with a Tenant. Make it with New.
type Reconciler struct {
	Client client.Client
	// Live reads past the cache; for what is decided once and for all.
	Live     client.Reader
	Recorder events.EventRecorder
	Options  Options
	Clock    clock.PassiveClock

	metrics *metrics
	// looks holds when each Tenant, by name, was last reconciled by this process.
	looks sync.Map
	// own are this process's writes to Tenants.
	own reconciler.State
}

// Reconcile reconciles one Tenant.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return reconciler.Reconcile(ctx, r.Client, r.Live, &r.own, req.NamespacedName, &v1beta1.Tenant{}, func() {
		r.looks.Delete(req.Name)
		r.metrics.namespaces.DeleteLabelValues(req.Name)
	}, func(ctx context.Context, t *v1beta1.Tenant) (ctrl.Result, error) {
		err := r.reconcile(ctx, t)
		if err == nil {
			r.looks.Store(t.Name, r.Clock.Now())
		}
		return ctrl.Result{}, err
	})
}

func (r *Reconciler) reconcile(ctx context.Context, t *v1beta1.Tenant) error {
	if proceed, err := r.guard(ctx, t); err != nil || !proceed {
		return err
	}
	o, err := r.observe(ctx, t)
	if err != nil {
		return err
	}
	p := decide(o, r.Options.OperatorNamespace)
	if creates := p.creates(); len(creates) > 0 {
		if err := r.declare(ctx, t, creates); err != nil {
			return err
		}
	}
	res := r.act(ctx, o, p)
	if err := r.report(ctx, o, p, res); err != nil {
		return err
	}
	return kerrors.NewAggregate(res.errs)
}

// guard sees to the finalizer before anything else is made, and stops when a
// Tenant on its way out is not held by us.
func (r *Reconciler) guard(ctx context.Context, t *v1beta1.Tenant) (proceed bool, err error) {
	held := controllerutil.ContainsFinalizer(t, v1beta1.TenantFinalizer)
	if !t.DeletionTimestamp.IsZero() || held {
		return held, nil
	}
	base := t.DeepCopy()
	controllerutil.AddFinalizer(t, v1beta1.TenantFinalizer)
	if err := r.own.Patch(ctx, r.Client, t, base); err != nil {
		return false, fmt.Errorf("adding finalizer: %w", err)
	}
	return true, nil
}

// declare records the names that are about to be created. The write carries
// the version that was judged, so it fails where the Tenant has changed or
// gone since, and nothing is created for a Tenant that is not there.
func (r *Reconciler) declare(ctx context.Context, t *v1beta1.Tenant, creates []string) error {
	if declared(t, creates) {
		// An earlier reconcile recorded them and came no further: no need to write
		// again, but still to make sure of the Tenant.
		return reconciler.VerifyUnchanged(ctx, r.Live, t, &v1beta1.Tenant{})
	}
	before := t.DeepCopy()
	t.Status = intent(t, creates, r.Clock.Now())
	if err := r.own.PatchStatusUnchanged(ctx, r.Client, t, before); err != nil {
		return fmt.Errorf("recording what is to be created: %w", err)
	}
	return nil
}

// report writes the status if it changed, records events, and lets a Tenant go
// that holds nothing any more. It returns the error that requires another reconcile.
func (r *Reconciler) report(ctx context.Context, o *observation, p plan, res *result) error {
	t := o.tenant
	before := t.DeepCopy()
	reporting.Flush(r.Recorder, t, res.events)
	if res.released {
		controllerutil.RemoveFinalizer(t, v1beta1.TenantFinalizer)
		if err := r.own.Patch(ctx, r.Client, t, before); err != nil {
			return fmt.Errorf("removing finalizer: %w", err)
		}
		return nil
	}
	// What was refused because it had changed meanwhile, or because another
	// replica leads, says nothing about the Tenant; the reconcile that follows at once
	// will have seen the change.
	if res.retry != nil {
		return res.retry
	}
	t.Status = summarize(o, p, res, r.Clock.Now())
	if !equality.Semantic.DeepEqual(before.Status, t.Status) {
		if err := r.own.PatchStatus(ctx, r.Client, t, before); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	}
	reporting.Flush(r.Recorder, t, transitions(o.before, t.Status, res.wrote))
	owned := 0
	for _, ns := range t.Status.Namespaces {
		if ns.UID != "" {
			owned++
		}
	}
	r.metrics.namespaces.WithLabelValues(t.Name).Set(float64(owned))
	return nil
}
