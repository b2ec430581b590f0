// Package storagebucket is the StorageBucket kind. What it watches
// lies outside the cluster, so it is time that brings most of its work.
//
// A reconcile goes: guard, due (is it time), observe (ask the bucket), decide
// (pure), act (create or remove), report (one status write, events on
// transitions).
package storagebucket

import (
	"context"
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

// removalPeriod is the longest pause between two tries to remove a bucket.
const removalPeriod = 30 * time.Second

// Reconciler keeps an eye on buckets. Make it with New.
type Reconciler struct {
	Client client.Client
	// Live reads past the cache: Secrets and ConfigMaps are read one at a time
	// and never kept.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Rules say which addresses may be dialled.
	Rules func(context.Context) (s3.Rules, error)
	// RemovalGrace is how long buckets may keep a namespace from being deleted.
	RemovalGrace time.Duration

	metrics *metrics
	states  probeStates
	limiter *endpointLimiter
	// own are this process's writes to StorageBuckets.
	own reconciler.State
}

// Reconcile reconciles one StorageBucket.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.limiter.Granted(req) {
		defer r.limiter.Return(req) // in case there is nothing to probe any more
	}
	return reconciler.Reconcile(ctx, r.Client, r.Live, &r.own, req.NamespacedName, &v1beta1.StorageBucket{}, func() {
		r.states.forget(req.NamespacedName)
		r.metrics.up.DeleteLabelValues(req.Namespace, req.Name)
	}, r.reconcile)
}

func (r *Reconciler) reconcile(ctx context.Context, b *v1beta1.StorageBucket) (ctrl.Result, error) {
	if !b.DeletionTimestamp.IsZero() {
		return r.finish(ctx, b)
	}
	state := r.states.of(b, r.Clock.Now())
	if state.due(b).After(r.Clock.Now()) {
		return ctrl.Result{}, r.report(ctx, b, state)
	}
	if !r.acquire(b) {
		return ctrl.Result{}, nil
	}
	found, acted, err := r.visit(ctx, b)
	state = r.states.of(b, r.Clock.Now())
	if err != nil {
		state.failed = r.Clock.Now()
		r.states.store(b, state)
		return ctrl.Result{}, err
	}
	result := judge(found, acted)
	r.metrics.saw(b, found, result)
	state = state.after(found, result, b.Generation, r.Clock.Now())
	state.unwritten = &report{found, acted}
	r.states.store(b, state)
	return ctrl.Result{}, r.report(ctx, b, state)
}

// acquire takes a slot at the endpoint of a bucket, which has to be released.
func (r *Reconciler) acquire(b *v1beta1.StorageBucket) bool {
	return r.limiter.Acquire(requestFor(b), b.Spec.Endpoint, r.states.of(b, r.Clock.Now()).last == outcomePrompt)
}

// release returns the slot, and records how fast the endpoint answered.
func (r *Reconciler) release(b *v1beta1.StorageBucket, shown outcome) {
	if shown != outcomeUnknown {
		state := r.states.of(b, r.Clock.Now())
		state.last = shown
		r.states.store(b, state)
	}
	r.limiter.Release(requestFor(b), shown)
}

// visit probes the bucket, does what follows from the result, and releases the slot.
func (r *Reconciler) visit(ctx context.Context, b *v1beta1.StorageBucket) (found observation, acted action, err error) {
	defer func() { r.release(b, shownBy(found, judge(found, acted))) }()
	if err := r.guard(ctx, b); err != nil {
		return found, acted, err
	}
	way, err := r.connect(ctx, b)
	if err != nil {
		return found, acted, err
	}
	defer way.close()
	found = r.observe(ctx, b, way)
	if err := canceled(ctx); err != nil {
		return found, acted, fmt.Errorf("probing the bucket: %w", err)
	}
	acted, err = r.provision(ctx, b, way, found)
	return found, acted, err
}

// guard sees to the finalizer of a managed bucket before anything is asked of
// the endpoint. What is only observed has nothing to finalize.
func (r *Reconciler) guard(ctx context.Context, b *v1beta1.StorageBucket) error {
	if b.Spec.ManagementPolicy != v1beta1.BucketManage || controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer) {
		return nil
	}
	base := b.DeepCopy()
	controllerutil.AddFinalizer(b, v1beta1.StorageBucketFinalizer)
	if err := r.own.Patch(ctx, r.Client, b, base); err != nil {
		return fmt.Errorf("adding finalizer: %w", err)
	}
	return nil
}

// report writes what the last probe found, if that was not written yet and is
// worth a write, and records events. Where the write fails, the next reconcile writes
// and does not ask the bucket again.
func (r *Reconciler) report(ctx context.Context, b *v1beta1.StorageBucket, state probeState) error {
	if state.unwritten == nil {
		return nil
	}
	found, acted := state.unwritten.found, state.unwritten.acted
	before := b.DeepCopy()
	b.Status = summarize(b, state, found, acted, judge(found, acted), r.Clock.Now())
	if worthWriting(before.Status, b.Status) {
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
