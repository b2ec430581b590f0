// Package tenant implements the controller and the webhooks of the Tenant kind.
//
// A reconcile runs these steps in order: guard, observe (read into one struct), decide
// (pure), act (apply and delete), report (one status write, events on transitions).
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
	"leasehold.dev/controllers/internal/denial"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// Reconciler reconciles Tenants. New returns a valid one.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, for decisions that cannot be undone.
	Live     client.Reader
	Recorder events.EventRecorder
	Options  Options
	Clock    clock.PassiveClock

	metrics *metrics
	// lastReconciled maps a Tenant's name to the time.Time of its last successful
	// reconcile in this process.
	lastReconciled sync.Map
	// own holds the resource versions of this process's writes to Tenants.
	own reconciler.State
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return reconciler.Reconcile(ctx, r.Client, r.Live, &r.own, req.NamespacedName, &v1beta1.Tenant{}, func() {
		r.lastReconciled.Delete(req.Name)
		r.metrics.namespaces.DeleteLabelValues(req.Name)
	}, func(ctx context.Context, t *v1beta1.Tenant) (ctrl.Result, error) {
		err := r.reconcile(ctx, t)
		if err == nil {
			r.lastReconciled.Store(t.Name, r.Clock.Now())
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
	if len(res.errs) == 0 {
		return res.foreign
	}
	return kerrors.NewAggregate(res.errs)
}

// guard adds the finalizer before any child is created. It returns false for a
// terminating Tenant without the finalizer, which this operator does not own.
func (r *Reconciler) guard(ctx context.Context, t *v1beta1.Tenant) (proceed bool, err error) {
	hasFinalizer := controllerutil.ContainsFinalizer(t, v1beta1.TenantFinalizer)
	if !t.DeletionTimestamp.IsZero() || hasFinalizer {
		return hasFinalizer, nil
	}
	base := t.DeepCopy()
	controllerutil.AddFinalizer(t, v1beta1.TenantFinalizer)
	if err := r.own.Patch(ctx, r.Client, t, base); err != nil {
		return false, fmt.Errorf("adding finalizer: %w", err)
	}
	return true, nil
}

// declare records in the status the names of the namespaces that act then creates. The
// write carries the resource version that was read. It fails if the Tenant has changed or
// was deleted since, so nothing is created for a deleted Tenant.
func (r *Reconciler) declare(ctx context.Context, t *v1beta1.Tenant, creates []string) error {
	if declared(t, creates) {
		// An earlier reconcile recorded the names and failed before it created them. The
		// Tenant may have changed since, so it is read again.
		return reconciler.VerifyUnchanged(ctx, r.Live, t, &v1beta1.Tenant{})
	}
	before := t.DeepCopy()
	t.Status = intent(t, creates, r.Clock.Now())
	if err := r.own.PatchStatusUnchanged(ctx, r.Client, t, before); err != nil {
		return fmt.Errorf("recording what is to be created: %w", err)
	}
	return nil
}

// report writes the status if it changed, and records events. It removes the finalizer
// of a terminating Tenant that owns nothing any more. It returns the error that requires
// another reconcile.
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
	// One Conflict or a denial by the fence is no failure of the Tenant, so the status does not
	// report it. The next reconcile follows at once and reads the change. Conflicts in a row are
	// reported, since the former status would claim what is not true.
	if res.retry != nil && (!o.contested || denial.ByFence(res.retry)) {
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
	return res.retry
}
