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

// owner tells whose a bucket is.
type owner int

const (
	ownerUnknown owner = iota
	// ownerSelf: it carries the UID of this StorageBucket.
	ownerSelf
	// ownerOther: it carries other tags, or those of another StorageBucket.
	ownerOther
	// ownerNone: it carries no tag at all.
	ownerNone
)

// move is what is to be done about a managed bucket.
type move int

const (
	wait     move = iota // nothing can be done now
	create               // there is none
	keep                 // it is ours
	conflict             // it is not ours
)

// decide says what to do about a managed bucket. It is pure. A bucket is ours by
// its mark alone: that we meant to create one is no proof that this is the one.
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

// action is what was done about a managed bucket. The zero action is nothing.
type action struct {
	// verdict replaces that of the probe, where something was done since.
	verdict *s3.Verdict
	// provisioning is how far it has come; "" leaves it as it is.
	provisioning v1beta1.BucketProvisioning
	events       []reporting.PendingEvent
}

// provision does what there is to do about a managed bucket.
func (r *Reconciler) provision(ctx context.Context, b *v1beta1.StorageBucket, way *connection, found observation) (action, error) {
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

// declare records that there may soon be a bucket of ours. It makes sure of the
// StorageBucket itself, so that nothing is created for one that has gone or
// changed.
func (r *Reconciler) declare(ctx context.Context, b *v1beta1.StorageBucket, message string) error {
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

// create creates the bucket, which was just seen to be missing, with our mark.
// What the server answers is believed only as far as the mark can be seen.
func (r *Reconciler) create(ctx context.Context, b *v1beta1.StorageBucket, c *s3.Client) (action, error) {
	within, cancel := context.WithTimeout(ctx, timeout(b))
	defer cancel()
	failed := c.Create(within, v1beta1.BucketTagOwner, string(b.UID))
	made, others := failed == nil, s3.Code(failed) == s3.CodeExists
	if !made && !others && s3.Code(failed) != s3.CodeOwned {
		return failing(ctx, failed)
	}
	whoseIs, mark, problem := whose(within, c, b)
	if made && whoseIs == ownerNone {
		// The server does not know tags in this request. It said that the bucket
		// is new, and it was not there a moment ago.
		if err := c.SetTag(within, v1beta1.BucketTagOwner, string(b.UID)); err != nil {
			return failing(ctx, err)
		}
		whoseIs = ownerSelf
	}
	switch {
	case whoseIs == ownerSelf:
		done := action{provisioning: v1beta1.BucketCreated, verdict: new(s3.Succeeded())}
		if made {
			done.events = []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketCreated, "Create", "created bucket %s", b.Spec.BucketName)}
		}
		return done, nil
	case problem != nil && !others: // of another account's bucket nothing can be told
		return action{verdict: problem}, canceled(ctx)
	}
	return conflicting(b, mark), canceled(ctx)
}

// canceled is the error of a context that ended because we stop: what was broken
// off so says nothing about the bucket. Time that ran out is the endpoint's doing.
func canceled(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// failing is the action that did not succeed.
func failing(ctx context.Context, err error) (action, error) {
	verdict := s3.VerdictOf(err)
	if stopped := canceled(ctx); stopped != nil || verdict == nil {
		return action{}, errors.Join(stopped, err)
	}
	return action{verdict: verdict}, nil
}

// whose reads the mark of a bucket. mark is that of another StorageBucket, "" if there is none.
// problem is why the mark could not be read.
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
