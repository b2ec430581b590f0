// Package storagebucket implements the controller of the StorageBucket kind. Buckets are
// outside the cluster and send no watch events, so most reconciles are periodic.
//
// A reconcile runs these steps in order: guard, due (skip unless a probe is due), observe
// (probe the bucket), decide (pure), act (create or remove), report (one status write,
// events on transitions).
package storagebucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// removalPeriod bounds the pause between two attempts to remove a bucket.
const removalPeriod = 30 * time.Second

// Reconciler reconciles StorageBuckets. New returns a valid one.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server. Secrets and ConfigMaps are never cached.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Rules returns the addresses that may be dialled.
	Rules func(context.Context) (s3.Rules, error)
	// RemovalGrace bounds the time for which buckets delay the deletion of a namespace.
	RemovalGrace time.Duration

	metrics *metrics
	states  probeStates
	limiter *endpointLimiter
	// own holds the resource versions of this process's writes to StorageBuckets.
	own reconciler.State
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.limiter.Granted(req) {
		defer r.limiter.Return(req) // in case no probe is due any more
	}
	return reconciler.Reconcile(ctx, r.Client, r.Live, &r.own, req.NamespacedName, &v1beta1.StorageBucket{}, func() {
		r.states.forget(req.NamespacedName)
		r.metrics.up.DeleteLabelValues(req.Namespace, req.Name)
		r.limiter.Release(req)
	}, r.reconcile)
}

func (r *Reconciler) reconcile(ctx context.Context, b *v1beta1.StorageBucket) (ctrl.Result, error) {
	if !b.DeletionTimestamp.IsZero() {
		return r.finish(ctx, b)
	}
	state := r.states.of(b, r.Clock.Now())
	if state.due(b).After(r.Clock.Now()) && !r.states.isTriggered(b) {
		return ctrl.Result{}, r.report(ctx, b, state)
	}
	found, acted, err := r.visit(ctx, b)
	state = r.states.of(b, r.Clock.Now())
	switch {
	case errors.Is(err, errNoSlot):
		return ctrl.Result{}, nil // the limiter queues the request again
	case err != nil:
		state.failed = r.Clock.Now()
		r.states.store(b, state)
		return ctrl.Result{}, err
	}
	result := judge(found, acted)
	r.metrics.countProbe(b, found, result)
	state = state.after(found, result, b.Generation, r.Clock.Now())
	state.unwritten = &report{found, acted}
	r.states.store(b, state)
	return ctrl.Result{}, r.report(ctx, b, state)
}

// visit probes the bucket and acts on the result. One deadline bounds all its requests to the
// endpoint. It returns errNoSlot if it must be repeated with a slot.
func (r *Reconciler) visit(ctx context.Context, b *v1beta1.StorageBucket) (found observation, acted action, err error) {
	if !r.admit(b) {
		return found, acted, errNoSlot
	}
	slow := false
	defer func() { r.leave(b, slow, err) }()
	r.states.begin(b)
	if err := r.guard(ctx, b); err != nil {
		return found, acted, err
	}
	way, err := r.connect(ctx, b)
	if err != nil {
		return found, acted, err
	}
	defer way.close()
	bounded, end := r.limiter.Bound(ctx, requestFor(b), b.Spec.Endpoint)
	defer func() { slow = end() }()
	within, cancel := context.WithTimeout(bounded, timeout(b))
	defer cancel()
	found = r.observe(within, b, way)
	if err := canceled(within); err != nil {
		return found, acted, fmt.Errorf("probing the bucket: %w", err)
	}
	if acted, err = r.provision(within, b, way, found); err != nil {
		if stopped := canceled(within); stopped != nil {
			err = fmt.Errorf("changing the bucket: %w", stopped)
		}
	}
	return found, acted, err
}

// admit reports whether a visit may begin. If the last visit under the same spec was slow, the
// next one begins with a slot, or is parked before it costs a worker anything.
func (r *Reconciler) admit(b *v1beta1.StorageBucket) bool {
	if r.states.of(b, r.Clock.Now()).slow == b.Generation {
		return r.limiter.Acquire(requestFor(b), b.Spec.Endpoint)
	}
	r.limiter.Release(requestFor(b)) // it could be parked under a former spec
	return true
}

// leave ends a visit, and records whether it was slow.
func (r *Reconciler) leave(b *v1beta1.StorageBucket, slow bool, err error) {
	state := r.states.of(b, r.Clock.Now())
	state.slow = 0
	if slow || errors.Is(err, errNoSlot) {
		state.slow = b.Generation
	}
	r.states.store(b, state)
	if errors.Is(err, errNoSlot) {
		r.limiter.Suspend(requestFor(b))
		return
	}
	r.limiter.Release(requestFor(b))
}

// guard adds the finalizer of a managed bucket before any request to the endpoint. A
// bucket that is only observed needs no finalizer.
func (r *Reconciler) guard(ctx context.Context, b *v1beta1.StorageBucket) error {
	if b.Spec.ManagementPolicy != v1beta1.BucketManage ||
		controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer) {
		return nil
	}
	base := b.DeepCopy()
	controllerutil.AddFinalizer(b, v1beta1.StorageBucketFinalizer)
	if err := r.own.Patch(ctx, r.Client, b, base); err != nil {
		return fmt.Errorf("adding finalizer: %w", err)
	}
	return nil
}

// report writes the result of the last probe if the status needs it, and records events.
// If the write fails, the next reconcile writes the same result without another probe.
func (r *Reconciler) report(ctx context.Context, b *v1beta1.StorageBucket, state probeState) error {
	if state.unwritten == nil {
		return nil
	}
	found, acted := state.unwritten.found, state.unwritten.acted
	before := b.DeepCopy()
	b.Status = summarize(b, state, found, acted, judge(found, acted), r.Clock.Now())
	if needsWrite(before.Status, b.Status) {
		if err := r.own.PatchStatus(ctx, r.Client, b, before); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	} else {
		b.Status = before.Status
	}
	state.unwritten = nil
	r.states.store(b, state)
	reporting.Flush(r.Recorder, b, append(acted.events, transitions(before.Status, b.Status)...))
	return nil
}
