// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"fmt"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// action is what a reconcile does with the bucket or the StorageBucket.
type action string

const (
	create  action = "create"  // declare the creation, then create the bucket
	remove  action = "remove"  // remove the bucket
	release action = "release" // remove the finalizer
)

// plan is the decision of one reconcile.
type plan struct {
	// steps are in the order of their execution.
	steps []action
	// verdict and provisioning are reported if all steps succeed. The latter leaves the status unchanged if it is "".
	verdict      s3.Verdict
	provisioning v1beta1.BucketProvisioning
	// kept is the reason why the bucket outlives its StorageBucket although deletionPolicy is Delete.
	kept string
	// events are recorded after the finalizer is removed.
	events []reporting.PendingEvent
}

// removes reports whether the end of a StorageBucket removes its bucket. Without a declared creation the
// operator created none. A deletion with --cascade=orphan retains the bucket, as it retains the namespaces of a
// Tenant.
func (o *observation) removes() bool {
	return o.bucket.Status.Provisioning != "" && o.bucket.Spec.DeletionPolicy == v1beta1.BucketDelete && !o.orphaned
}

// owns reports whether the tags of a bucket prove that it belongs to a StorageBucket. A declared
// creation does not prove that the operator created this bucket.
func owns(b *v1beta1.StorageBucket, tags map[string]string) bool {
	return tags[v1beta1.BucketTagOwner] == string(b.UID)
}

// decide returns the plan for a bucket. It is pure.
func decide(o *observation) plan {
	b, p := o.bucket, plan{verdict: o.verdict}
	if !b.DeletionTimestamp.IsZero() {
		return decideRemoval(o)
	}
	switch {
	case b.Spec.ManagementPolicy != v1beta1.BucketManage:
	case o.verdict.Missing():
		p.steps = []action{create}
		p.verdict, p.provisioning = s3.Succeeded, v1beta1.BucketCreated
	case o.verdict == s3.Denied && b.Status.Provisioning != v1beta1.BucketCreated:
		p.verdict = s3.DeniedName
	case !o.verdict.OK():
	case owns(b, o.tags):
		p.provisioning = v1beta1.BucketCreated
	default:
		p.verdict = conflict(b, o.tags)
	}
	return p
}

// decideRemoval returns the plan for a terminating StorageBucket. A bucket stays if nothing can prove
// that the operator created it, and if its namespace has lost the keys, as it accepts no new ones.
func decideRemoval(o *observation) plan {
	b, p := o.bucket, plan{steps: []action{release}, verdict: o.verdict}
	keep := func(reason, message string) {
		p.kept = reason
		p.events = []reporting.PendingEvent{reporting.Warning(v1beta1.EventBucketRetained, "Release",
			"kept bucket %s, because the operator cannot delete it: %s: %s; delete the bucket at the endpoint if it "+
				"is not needed",
			b.Spec.BucketName, reason, message)}
	}
	switch {
	case b.Status.Provisioning == "":
	case !o.removes():
		why := "spec.deletionPolicy is Retain"
		if b.Spec.DeletionPolicy == v1beta1.BucketDelete {
			why = "the StorageBucket was deleted with --cascade=orphan"
		}
		p.events = []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketRetained, "Release",
			"kept bucket %s, because %s", b.Spec.BucketName, why)}
	case o.verdict.Missing():
	case o.verdict.OK() && owns(b, o.tags):
		p.steps = []action{remove, release}
	case o.verdict.OK():
		keep(v1beta1.ReasonBucketConflict, "the bucket does not have the tag "+v1beta1.BucketTagOwner+
			" with the UID of this StorageBucket")
	case o.verdict.Reason == v1beta1.ReasonTagsNotSupported:
		keep(o.verdict.Reason, "the service does not support bucket tags, so the operator cannot verify that it "+
			"created the bucket")
	case o.lost && o.namespace != nil:
		keep(o.verdict.Reason, "the Secret or ConfigMap of the StorageBucket was already deleted with the namespace")
	default:
		p.steps = nil
	}
	return p
}

// conflict is the verdict on a bucket of another owner or of none. Other clients can write the text of its tag.
func conflict(b *v1beta1.StorageBucket, tags map[string]string) s3.Verdict {
	whose := "the bucket exists without the tag of this StorageBucket"
	if tags[v1beta1.BucketTagOwner] != "" {
		whose = "the bucket has the tag of another StorageBucket"
	}
	return s3.Verdict{Reason: v1beta1.ReasonBucketConflict, Message: fmt.Sprintf("%s, so the operator does not "+
		"change the bucket; create another StorageBucket with another bucketName or with managementPolicy Observe; or, if "+
		"the bucket belongs to this StorageBucket, for example after a restore, set this tag on the bucket "+
		"with any S3 client: %s=%s", whose, v1beta1.BucketTagOwner, b.UID)}
}
