package storagebucket

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// act carries out the steps of a plan, up to the first one that the endpoint refuses, and returns
// what to report.
func (r *Reconciler) act(ctx context.Context, b *v1beta1.StorageBucket, o observation, p plan) (findings, error) {
	f := p.findings
	for _, s := range p.steps {
		var err error
		switch s {
		case declare:
			err = r.declare(ctx, b, o.client)
		case create:
			err = r.create(ctx, b, o.client)
		case remove:
			err = r.remove(ctx, b, o)
		case release:
			err = r.release(ctx, b, &f)
		}
		if ctx.Err() != nil {
			return f, fmt.Errorf("changing the bucket: %w", ctx.Err())
		}
		if refused := s3.VerdictOf(err); refused != nil {
			return findings{verdict: *refused}, nil
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// declare records in the status that the operator is about to create a bucket. The write fails if the
// StorageBucket was changed or deleted since it was read. A service without tags gets no bucket,
// because the operator could not recognize it, and one that appeared after the probe is no new one.
func (r *Reconciler) declare(ctx context.Context, b *v1beta1.StorageBucket, c *s3.Client) error {
	owns, err := ownerOf(ctx, c, b)
	if err == nil && owns != ownerSelf {
		return &s3.Error{Verdict: conflict(b, owns)}
	}
	if v := s3.VerdictOf(err); v != nil && v.Reason == v1beta1.ReasonTagsNotSupported {
		return err
	}
	if b.Status.Provisioning != "" {
		return reconciler.VerifyUnchanged(ctx, r.Live, b, &v1beta1.StorageBucket{})
	}
	before := b.DeepCopy()
	b.Status.Provisioning = v1beta1.BucketIntended
	setReady(&b.Status, b.Generation, r.Clock.Now(), metav1.Condition{
		Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonCreating, Message: "creating the bucket",
	})
	if err := apply.PatchStatusUnchanged(ctx, r.Client, b, before); err != nil {
		return fmt.Errorf("recording the intent to create the bucket: %w", err)
	}
	return nil
}

// create creates the missing bucket with the owner tag. It reads the tag afterwards, since a
// successful response alone does not prove that the operator created the bucket. The event is recorded
// at once, because the bucket exists even if the report fails.
func (r *Reconciler) create(ctx context.Context, b *v1beta1.StorageBucket, c *s3.Client) error {
	err := c.Create(ctx, v1beta1.BucketTagOwner, string(b.UID))
	created, others := err == nil, s3.Code(err) == s3.CodeExists
	if !created && !others && s3.Code(err) != s3.CodeOwned {
		return err
	}
	owns, err := ownerOf(ctx, c, b)
	if created && err == nil && owns == ownerUntagged {
		// The server ignores tags in this request. It reported a new bucket, and the probe right
		// before reported that none existed.
		err, owns = c.SetTag(ctx, v1beta1.BucketTagOwner, string(b.UID)), ownerSelf
	}
	switch {
	case err != nil && others: // the tags of another account's bucket are not readable
		return &s3.Error{Verdict: s3.Taken()}
	case err != nil:
		return err
	case owns != ownerSelf:
		return &s3.Error{Verdict: conflict(b, owns)}
	case created:
		r.emit(b, nil, []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketCreated, "Create", "created bucket %s",
			b.Spec.BucketName)})
	}
	return nil
}

// remove removes the bucket, and records its event at once for the same reason.
func (r *Reconciler) remove(ctx context.Context, b *v1beta1.StorageBucket, o observation) error {
	if err := o.client.Remove(ctx); err != nil {
		return err
	}
	r.emit(b, o.namespace, []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketDeleted, "Delete",
		"removed bucket %s", b.Spec.BucketName)})
	return nil
}

// release removes the finalizer. If the StorageBucket is gone already, its end was reported before.
func (r *Reconciler) release(ctx context.Context, b *v1beta1.StorageBucket, f *findings) error {
	base := b.DeepCopy()
	controllerutil.RemoveFinalizer(b, v1beta1.StorageBucketFinalizer)
	err := apply.Patch(ctx, r.Client, b, base)
	if apierrors.IsNotFound(err) {
		*f = findings{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing finalizer: %w", err)
	}
	return nil
}
