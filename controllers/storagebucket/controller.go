// SPDX-License-Identifier: Apache-2.0

// Package storagebucket implements the controller of the StorageBucket kind. Buckets are outside the
// cluster and send no watch events, so most reconciles are periodic.
package storagebucket

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/storagebucket/s3"
)

// Reconciler reconciles StorageBuckets. It reads Secrets and ConfigMaps live, as they are never cached.
type Reconciler struct {
	reconciler.Base

	// Rules are the addresses that may be dialled. Cluster returns those of the operator and of the
	// API server, which are not in the Rules yet.
	Rules   s3.Rules
	Cluster func(context.Context) ([]netip.Addr, error)

	metrics *metrics
	probes  probes
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return reconciler.Run(ctx, r.Client, req, &v1beta1.StorageBucket{}, reconciler.Steps[*v1beta1.StorageBucket]{
		Forget: r.forget, Pause: r.reportPaused, Reconcile: r.reconcile})
}

// reconcile adds the finalizer before any request to the endpoint.
func (r *Reconciler) reconcile(ctx context.Context, b *v1beta1.StorageBucket) (ctrl.Result, error) {
	if r.idle(b) {
		return ctrl.Result{}, nil
	}
	if err := r.addFinalizer(ctx, b); err != nil {
		return ctrl.Result{}, r.fail(ctx, b, err)
	}
	o, err := r.observe(ctx, b)
	if err != nil {
		return ctrl.Result{}, r.fail(ctx, b, err)
	}
	p := decide(o)
	res, err := r.act(ctx, o, p)
	if err != nil {
		return ctrl.Result{}, r.fail(ctx, b, err)
	}
	return r.report(ctx, o, p, res)
}

// idle reports whether the next probe of a bucket is not due, or the operator owns nothing of it any more.
func (r *Reconciler) idle(b *v1beta1.StorageBucket) bool {
	known := r.probes.of(b, r.Clock.Now())
	if b.DeletionTimestamp.IsZero() {
		return known.due(b).After(r.Clock.Now())
	}
	return !controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer)
}

// forget drops what is known of a deleted bucket, and ends its series.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.probes.forget(key)
	r.metrics.up.DeleteLabelValues(key.Namespace, key.Name)
}

// addFinalizer adds the finalizer of a managed bucket. A bucket that is only observed needs none.
func (r *Reconciler) addFinalizer(ctx context.Context, b *v1beta1.StorageBucket) error {
	if b.Spec.ManagementPolicy != v1beta1.BucketManage || !b.DeletionTimestamp.IsZero() ||
		controllerutil.ContainsFinalizer(b, v1beta1.StorageBucketFinalizer) {
		return nil
	}
	live, err := r.readWhole(ctx, b)
	if err != nil {
		return fmt.Errorf("adding finalizer: %w", err)
	}
	if err := r.AddFinalizer(ctx, live, v1beta1.StorageBucketFinalizer); err != nil {
		return err
	}
	*b = *live
	return nil
}

// readWhole reads the object from the API server before a patch of its finalizers, because the cache drops the
// finalizers of other controllers.
func (r *Reconciler) readWhole(ctx context.Context, b *v1beta1.StorageBucket) (*v1beta1.StorageBucket, error) {
	live := &v1beta1.StorageBucket{}
	return live, reconciler.Verify(ctx, r.Live, b, live, reconciler.SameVersion)
}
