// SPDX-License-Identifier: Apache-2.0

// Package storagebucket implements the controller of the StorageBucket kind. Buckets are outside the
// cluster and send no watch events, so most reconciles are periodic.
//
// A reconcile observes the bucket by a probe, decides (a pure function), acts on the bucket and the
// finalizer, and reports by one status write and events.
package storagebucket

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/storagebucket/s3"
)

const removalPeriod = 30 * time.Second // between two attempts to remove a bucket, at most

// Reconciler reconciles StorageBuckets.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server: Secrets and ConfigMaps, which are never cached, and what
	// decides about the end of a bucket.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Rules are the addresses that may be dialled. Cluster returns those of the operator and of the
	// API server, which are not in the Rules yet.
	Rules   s3.Rules
	Cluster func(context.Context) ([]netip.Addr, error)

	metrics *metrics
	probes  probes
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := &v1beta1.StorageBucket{}
	if err := r.Client.Get(ctx, req.NamespacedName, b); apierrors.IsNotFound(err) {
		r.probes.forget(req.NamespacedName)
		r.metrics.up.DeleteLabelValues(req.Namespace, req.Name)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the object: %w", err)
	}
	terminating, p := !b.DeletionTimestamp.IsZero(), r.probes.of(b, r.Clock.Now())
	if _, ok := r.probes.orphaned.Load(b.UID); ok {
		controllerutil.AddFinalizer(b, metav1.FinalizerOrphanDependents)
	}
	switch {
	case reconciler.Paused(b):
		return reconciler.Finish(ctrl.Result{}, r.reportPaused(ctx, b))
	case terminating && !controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer),
		!terminating && p.due(b).After(r.Clock.Now()):
		return ctrl.Result{}, nil
	}
	result, err := r.reconcile(ctx, b)
	if err != nil {
		p.retrying = true
		r.probes.store(b, p)
	}
	return reconciler.Finish(result, err)
}

func (r *Reconciler) reconcile(ctx context.Context, b *v1beta1.StorageBucket) (ctrl.Result, error) {
	stored := b.DeepCopy()
	err := r.guard(ctx, b)
	var o observation
	if err == nil {
		o, err = r.observe(ctx, b)
	}
	var f findings
	if err == nil {
		f, err = r.act(ctx, b, o, decide(b, o))
	}
	switch {
	case apierrors.IsNotFound(err): // the object is gone, and its end was reported before
		return ctrl.Result{}, nil
	case err != nil:
		stored.ResourceVersion = b.ResourceVersion // a failed write leaves what is not stored in b
		return ctrl.Result{}, r.reportError(ctx, stored, err)
	case !b.DeletionTimestamp.IsZero():
		return r.reportRemoval(ctx, b, o, f)
	}
	return ctrl.Result{}, r.report(ctx, b, o, f)
}

// guard adds the finalizer of a managed bucket before any request to the endpoint. A bucket that is
// only observed needs no finalizer.
func (r *Reconciler) guard(ctx context.Context, b *v1beta1.StorageBucket) error {
	if b.Spec.ManagementPolicy != v1beta1.BucketManage || !b.DeletionTimestamp.IsZero() ||
		controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer) {
		return nil
	}
	if err := r.setFinalizer(ctx, b, controllerutil.AddFinalizer); err != nil {
		return fmt.Errorf("adding finalizer: %w", err)
	}
	return nil
}

// setFinalizer adds or removes the finalizer. It reads the object live, as the patch has the whole list,
// and the cache does not hold the finalizers of others.
func (r *Reconciler) setFinalizer(ctx context.Context, b *v1beta1.StorageBucket,
	change func(client.Object, string) bool) error {
	live := &v1beta1.StorageBucket{}
	if err := reconciler.VerifyUnchanged(ctx, r.Live, b, live); err != nil {
		return err
	}
	base := live.DeepCopy()
	change(live, v1beta1.StorageBucketFinalizer)
	if err := apply.Patch(ctx, r.Client, live, base); err != nil {
		return err
	}
	*b = *live
	return nil
}
