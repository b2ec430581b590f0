// Package tenant is the room of the Tenant kind: its controller and webhooks.
//
// One pass goes: guard, observe (read into one struct), decide (pure), act
// (apply and delete), report (one status write, events on transitions).
package tenant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/lookup"
	"leasehold.dev/controllers/internal/notes"
	"leasehold.dev/controllers/internal/ownwrites"
)

// lookAgain is how soon a Tenant is looked at again when something changed
// under the controller's hands; the caches have caught up by then.
const lookAgain = 200 * time.Millisecond

// catchUp is how soon a Tenant is looked at again when the cache does not show
// our own last write to it yet; mostly that takes a few milliseconds.
const catchUp = 50 * time.Millisecond

var errStale = errors.New("the cache is behind")

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
	own ownwrites.Floor
}

// Reconcile makes one pass over one Tenant.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, err := lookup.Get(ctx, r.Client, req.NamespacedName, &v1beta1.Tenant{})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading tenant: %w", err)
	}
	if t == nil {
		r.looks.Delete(req.Name)
		r.own.Forget(req.NamespacedName)
		r.metrics.namespaces.DeleteLabelValues(req.Name)
		return ctrl.Result{}, nil
	}
	if r.own.Behind(t) {
		return ctrl.Result{RequeueAfter: catchUp}, nil
	}
	result, err := r.pass(ctx, t)
	// A conflict is not a failure: what was judged has changed, so judge again.
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	// The Tenant itself went away under our hands.
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	}
	if err == nil {
		r.looks.Store(t.Name, r.Clock.Now())
	}
	return result, err
}

func (r *Reconciler) pass(ctx context.Context, t *v1beta1.Tenant) (ctrl.Result, error) {
	if proceed, err := r.guard(ctx, t); err != nil || !proceed {
		return ctrl.Result{}, err
	}
	o, err := r.observe(ctx, t)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := decide(o, r.Options.OperatorNamespace)
	if creates := p.creates(); len(creates) > 0 {
		if err := r.declare(ctx, t, creates); err != nil {
			return ctrl.Result{}, err
		}
	}
	res := r.act(ctx, o, p)
	if err := r.report(ctx, o, p, res); err != nil {
		return ctrl.Result{}, err
	}
	if res.retry {
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	return ctrl.Result{}, kerrors.NewAggregate(res.errs)
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
	if err := r.patch(ctx, t, base); err != nil {
		return false, fmt.Errorf("adding finalizer: %w", err)
	}
	return true, nil
}

// declare records the names that are about to be created. The write carries
// the version that was judged, so it fails where the Tenant has changed or
// gone since, and nothing is created for a Tenant that is not there.
func (r *Reconciler) declare(ctx context.Context, t *v1beta1.Tenant, creates []string) error {
	if declared(t, creates) {
		// An earlier pass recorded them and came no further: no need to write
		// again, but still to make sure of the Tenant.
		live, err := lookup.Get(ctx, r.Live, client.ObjectKeyFromObject(t), &v1beta1.Tenant{})
		switch {
		case err != nil:
			return fmt.Errorf("reading tenant: %w", err)
		case live == nil || live.UID != t.UID || live.ResourceVersion != t.ResourceVersion:
			return apierrors.NewConflict(v1beta1.GroupVersion.WithResource("tenants").GroupResource(), t.Name, errStale)
		}
		return nil
	}
	before := t.DeepCopy()
	t.Status = intent(t, creates, r.Clock.Now())
	if err := r.patchStatus(ctx, t, before); err != nil {
		return fmt.Errorf("recording what is to be created: %w", err)
	}
	return nil
}

// report writes the status if it changed, records events, and lets a Tenant go
// that holds nothing any more.
func (r *Reconciler) report(ctx context.Context, o *observation, p plan, res *result) error {
	t := o.tenant
	before := t.DeepCopy()
	notes.Emit(r.Recorder, t, res.events)
	if res.released {
		controllerutil.RemoveFinalizer(t, v1beta1.TenantFinalizer)
		if err := r.patch(ctx, t, before); err != nil {
			return fmt.Errorf("removing finalizer: %w", err)
		}
		return nil
	}
	// What was refused because it had changed meanwhile says nothing about the
	// Tenant; the pass that follows at once will have seen the change.
	if res.retry {
		return nil
	}
	t.Status = summarize(o, p, res, r.Clock.Now())
	if !equality.Semantic.DeepEqual(before.Status, t.Status) {
		if err := r.patchStatus(ctx, t, before); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	}
	notes.Emit(r.Recorder, t, transitions(o.before, t.Status, res.wrote))
	owned := 0
	for _, ns := range t.Status.Namespaces {
		if ns.UID != "" {
			owned++
		}
	}
	r.metrics.namespaces.WithLabelValues(t.Name).Set(float64(owned))
	return nil
}

// patch writes what changed on the Tenant itself since base, if it still is at
// base's version.
func (r *Reconciler) patch(ctx context.Context, t, base *v1beta1.Tenant) error {
	err := apply.Patch(ctx, r.Client, t, base)
	if err == nil {
		r.own.Wrote(t)
	}
	return err
}

// patchStatus is patch for the status.
func (r *Reconciler) patchStatus(ctx context.Context, t, base *v1beta1.Tenant) error {
	err := apply.PatchStatus(ctx, r.Client, t, base)
	if err == nil {
		r.own.Wrote(t)
	}
	return err
}
