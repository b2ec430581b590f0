package storagebucket

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// owner classifies the owner of a bucket by its tags.
type owner int

const (
	ownerUnknown owner = iota
	// ownerSelf means that the tag has the UID of this StorageBucket.
	ownerSelf
	// ownerOther means that the bucket has other tags or another StorageBucket's UID.
	ownerOther
	// ownerNone means that the bucket has no tags.
	ownerNone
)

// move is the decision about a managed bucket.
type move int

const (
	wait     move = iota // the probe failed, so no action is possible
	create               // the bucket does not exist
	keep                 // the bucket is owned
	conflict             // the bucket is not owned
)

// decide returns the decision about a managed bucket. It is pure. Only the tag proves the
// ownership: a declared creation does not prove that the operator created this bucket.
func decide(found observation) move {
	switch {
	case found.verdict.Missing():
		return create
	case !found.verdict.OK():
		return wait
	case found.owner == ownerSelf:
		return keep
	}
	return conflict
}

// action is the result of the decision about a managed bucket; zero for no change.
type action struct {
	// verdict replaces the verdict of the probe after a change; nil otherwise.
	verdict *s3.Verdict
	// provisioning is the new status.provisioning; "" leaves it unchanged.
	provisioning v1beta1.BucketProvisioning
	events       []reporting.PendingEvent
}

// provision executes the decision about a managed bucket.
func (r *Reconciler) provision(ctx context.Context, b *v1beta1.StorageBucket, way *connection,
	found observation) (action, error) {
	if b.Spec.ManagementPolicy != v1beta1.BucketManage {
		return action{}, nil
	}
	switch decide(found) {
	case keep:
		return action{provisioning: v1beta1.BucketCreated}, nil
	case conflict:
		return r.contend(ctx, b, way.client, found.mark)
	case create:
		if err := r.declare(ctx, b, "creating the bucket"); err != nil {
			return action{}, err
		}
		return r.create(ctx, b, way.client)
	default:
		return action{}, nil
	}
}

// declare records in the status that the operator is about to create a bucket. The write
// fails if the StorageBucket was changed or deleted since it was read. The visit needs a slot
// from now on, because the limiter must not end it between two changes.
func (r *Reconciler) declare(ctx context.Context, b *v1beta1.StorageBucket, message string) error {
	if !r.limiter.Acquire(requestFor(b), b.Spec.Endpoint) {
		return errNoSlot
	}
	if b.Status.Provisioning != "" {
		return reconciler.VerifyUnchanged(ctx, r.Live, b, &v1beta1.StorageBucket{})
	}
	before := b.DeepCopy()
	b.Status.Provisioning = v1beta1.BucketIntended
	setReady(&b.Status, b.Generation, r.Clock.Now(), metav1.Condition{
		Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonCreating, Message: message,
	})
	if err := r.own.PatchStatusUnchanged(ctx, r.Client, b, before); err != nil {
		return fmt.Errorf("recording the intent to create the bucket: %w", err)
	}
	return nil
}

// create creates the missing bucket with the owner tag. It reads the tag afterwards, since
// a successful response alone does not prove that the operator created the bucket.
func (r *Reconciler) create(ctx context.Context, b *v1beta1.StorageBucket, c *s3.Client) (action, error) {
	failed := c.Create(ctx, v1beta1.BucketTagOwner, string(b.UID))
	made, others := failed == nil, s3.Code(failed) == s3.CodeExists
	if !made && !others && s3.Code(failed) != s3.CodeOwned {
		return failing(ctx, failed)
	}
	whoseIs, mark, problem := whose(ctx, c, b)
	if made && whoseIs == ownerNone {
		// The server ignores tags in this request. It reported a new bucket, and the probe
		// right before reported that none existed.
		if err := c.SetTag(ctx, v1beta1.BucketTagOwner, string(b.UID)); err != nil {
			return failing(ctx, err)
		}
		whoseIs = ownerSelf
	}
	switch {
	case whoseIs == ownerSelf:
		done := action{provisioning: v1beta1.BucketCreated, verdict: new(s3.Succeeded())}
		if made {
			done.events = []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketCreated, "Create", "created bucket %s",
				b.Spec.BucketName)}
		}
		return done, nil
	case problem != nil && !others: // the tags of another account's bucket are never readable
		return action{verdict: problem}, canceled(ctx)
	}
	return conflicting(b, mark), canceled(ctx)
}

// canceled returns the cause of a context that was canceled: the operator stops, or the visit
// needs a slot. A canceled request proves nothing about the bucket; a timeout is the endpoint's
// failure.
func canceled(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return nil
}

// failing returns the action for a failed request.
func failing(ctx context.Context, err error) (action, error) {
	verdict := s3.VerdictOf(err)
	if stopped := canceled(ctx); stopped != nil || verdict == nil {
		return action{}, errors.Join(stopped, err)
	}
	return action{verdict: verdict}, nil
}

// whose reads the owner tag of a bucket. mark is the UID of another StorageBucket, or "".
// problem is the verdict if the tags could not be read.
func whose(ctx context.Context, c *s3.Client, b *v1beta1.StorageBucket) (is owner, mark string, problem *s3.Verdict) {
	uid, tagged, err := c.Tag(ctx, v1beta1.BucketTagOwner)
	switch {
	case err != nil:
		return ownerUnknown, "", s3.VerdictOf(err)
	case uid == string(b.UID):
		return ownerSelf, "", nil
	case tagged:
		return ownerOther, uid, nil
	}
	return ownerNone, "", nil
}
