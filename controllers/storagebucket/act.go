// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// result is how a reconcile ended.
type result struct {
	verdict      s3.Verdict
	provisioning v1beta1.BucketProvisioning // new in the status; "" leaves it unchanged
	released     bool                       // the finalizer is removed
}

// act carries out the steps of a plan, up to the first one that the endpoint refuses.
func (r *Reconciler) act(ctx context.Context, o *observation, p plan) (*result, error) {
	res := &result{verdict: p.verdict, provisioning: p.provisioning}
	for _, action := range p.steps {
		var err error
		switch action {
		case create:
			err = r.create(ctx, o)
		case remove:
			err = r.remove(ctx, o)
		default: // release
			err = r.release(ctx, o)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("changing the bucket: %w", ctx.Err())
		}
		if answer, ok := errors.AsType[s3.Error](err); ok {
			return &result{verdict: answer.Verdict}, nil
		}
		if err != nil {
			return nil, err
		}
		res.released = action == release
	}
	return res, nil
}

// declare records in the status that the operator is about to create a bucket. The write fails if the
// StorageBucket was changed or deleted since it was read. A service without tags gets no bucket,
// because the operator could not recognize it, and one that appeared after the probe is no new one.
// That a bucket has no tags does not prove that it exists: MinIO answers so for a missing one.
func (r *Reconciler) declare(ctx context.Context, o *observation) error {
	b := o.bucket
	tags, err := o.client.Tags(ctx)
	if err == nil && !owns(b, tags) && (len(tags) > 0 || o.client.Probe(ctx).OK()) {
		return s3.Error{Verdict: conflict(b, tags)}
	}
	if answer, _ := errors.AsType[s3.Error](err); answer.Reason == v1beta1.ReasonTagsNotSupported {
		return err
	}
	if b.Status.Provisioning != "" {
		return reconciler.Verify(ctx, r.Live, b, &v1beta1.StorageBucket{}, reconciler.SameVersion)
	}
	after := b.DeepCopy()
	after.Status.Provisioning = v1beta1.BucketIntended
	setReady(&after.Status, b.Generation, r.Clock.Now(), metav1.Condition{Status: metav1.ConditionUnknown,
		Reason: v1beta1.ReasonCreating, Message: "creating the bucket"})
	if err := apply.PatchStatus(ctx, r.Client, after, b); err != nil {
		return fmt.Errorf("recording the intent to create the bucket: %w", err)
	}
	*b = *after
	return nil
}

// create declares and creates the missing bucket with the owner tag. It reads the tags afterwards, since a
// successful response alone does not prove that the operator created the bucket. The event is recorded
// at once, because the bucket exists even if the report fails. If the bucket exists already, the tags
// decide too: an earlier request whose answer was lost may have created it.
func (r *Reconciler) create(ctx context.Context, o *observation) error {
	if err := r.declare(ctx, o); err != nil {
		return err
	}
	b := o.bucket
	created := o.client.Create(ctx, v1beta1.BucketTagOwner, string(b.UID))
	answer, _ := errors.AsType[s3.Error](created)
	exists := answer.Verdict == s3.Owned || answer.Verdict == s3.Taken
	if created != nil && !exists {
		return created
	}
	var tags map[string]string
	err := insist(func() (err error) { tags, err = o.client.Tags(ctx); return err })
	switch {
	case exists && err != nil:
		return created
	case err == nil && len(tags) == 0 && !exists:
		// The server ignores tags in this request. It reported a new bucket, and the probe right
		// before reported that none existed.
		err = insist(func() error { return o.client.SetTag(ctx, v1beta1.BucketTagOwner, string(b.UID)) })
	case err == nil && !owns(b, tags):
		err = s3.Error{Verdict: conflict(b, tags)}
	}
	if err != nil {
		return err
	}
	event := reporting.Normal(v1beta1.EventBucketCreated, "Create", "created bucket %s", b.Spec.BucketName)
	if b.Status.Provisioning == v1beta1.BucketCreated && !exists {
		event = reporting.Warning(v1beta1.EventBucketRecreated, "Create", "created bucket %s again, without its objects, "+
			"because the endpoint no longer had the bucket", b.Spec.BucketName)
	}
	r.emit(b, nil, event)
	return nil
}

// insist repeats a request that the service is too busy for: the next probe could not claim a bucket without tag.
func insist(request func() error) error {
	return retry.OnError(retry.DefaultBackoff, func(err error) bool {
		answer, _ := errors.AsType[s3.Error](err)
		return answer.Reason == v1beta1.ReasonThrottled || answer.Reason == v1beta1.ReasonServerError
	}, request)
}

// remove removes the bucket, and records its event at once for the same reason.
func (r *Reconciler) remove(ctx context.Context, o *observation) error {
	if err := o.client.Remove(ctx); err != nil {
		return err
	}
	r.emit(o.bucket, o.namespace, reporting.Normal(v1beta1.EventBucketDeleted, "Delete", "deleted bucket %s",
		o.bucket.Spec.BucketName))
	return nil
}

// release removes the finalizer.
func (r *Reconciler) release(ctx context.Context, o *observation) error {
	live, err := r.readWhole(ctx, o.bucket)
	if err != nil {
		return fmt.Errorf("removing finalizer: %w", err)
	}
	return r.RemoveFinalizer(ctx, live, v1beta1.StorageBucketFinalizer)
}
