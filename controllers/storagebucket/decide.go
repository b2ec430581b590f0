// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// step changes the bucket or the StorageBucket: declare, create, remove or release.
type step func(*Reconciler, context.Context, *v1beta1.StorageBucket, observation) error

// findings are what a reconcile reports.
type findings struct {
	verdict      s3.Verdict
	provisioning v1beta1.BucketProvisioning // new in the status; "" leaves it unchanged
	// kept is the reason why the bucket outlives its StorageBucket although deletionPolicy is Delete.
	kept string
	// events are recorded after the finalizer is removed.
	events []reporting.PendingEvent
}

// plan is what a reconcile does, in order, and what it reports if all steps succeed.
type plan struct {
	steps []step
	findings
}

// removes reports whether the end of a StorageBucket removes its bucket. Without a declared creation the
// operator created none. A deletion with --cascade=orphan retains the bucket, as it retains the namespaces of a
// Tenant.
func removes(b *v1beta1.StorageBucket) bool {
	return b.Status.Provisioning != "" && b.Spec.DeletionPolicy == v1beta1.BucketDelete &&
		!controllerutil.ContainsFinalizer(b, metav1.FinalizerOrphanDependents)
}

// owns reports whether the tags of a bucket prove that it belongs to a StorageBucket. A declared
// creation does not prove that the operator created this bucket.
func owns(b *v1beta1.StorageBucket, tags map[string]string) bool {
	return tags[v1beta1.BucketTagOwner] == string(b.UID)
}

// decide returns the plan for a bucket. It is pure.
func decide(b *v1beta1.StorageBucket, o observation) plan {
	if !b.DeletionTimestamp.IsZero() {
		return decideRemoval(b, o)
	}
	p := plan{findings: findings{verdict: o.verdict}}
	switch {
	case b.Spec.ManagementPolicy != v1beta1.BucketManage:
	case o.verdict.Missing():
		p.steps = []step{(*Reconciler).declare, (*Reconciler).create}
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
func decideRemoval(b *v1beta1.StorageBucket, o observation) plan {
	p := plan{steps: []step{(*Reconciler).release}, findings: findings{verdict: o.verdict}}
	keep := func(reason, message string) {
		p.kept = reason
		p.events = []reporting.PendingEvent{reporting.Warning(v1beta1.EventBucketRetained, "Release",
			"kept bucket %s, because the operator cannot delete it: %s: %s; delete the bucket at the endpoint if it "+
				"is not needed",
			b.Spec.BucketName, reason, message)}
	}
	switch {
	case b.Status.Provisioning == "":
	case !removes(b):
		why := "spec.deletionPolicy is Retain"
		if b.Spec.DeletionPolicy == v1beta1.BucketDelete {
			why = "the StorageBucket was deleted with --cascade=orphan"
		}
		p.events = []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketRetained, "Release",
			"kept bucket %s, because %s", b.Spec.BucketName, why)}
	case o.verdict.Missing():
	case o.verdict.OK() && owns(b, o.tags):
		p.steps = []step{(*Reconciler).remove, (*Reconciler).release}
	case o.verdict.OK():
		keep(v1beta1.ReasonBucketConflict, "the bucket does not have the tag "+v1beta1.BucketTagOwner+
			" with the UID of this StorageBucket")
	case o.verdict.Reason == v1beta1.ReasonTagsNotSupported:
		keep(o.verdict.Reason, "the service does not support bucket tags, so the operator cannot verify that it created the bucket")
	case o.lost && o.namespace != nil:
		keep(o.verdict.Reason, "the Secret or ConfigMap of the StorageBucket was already deleted with the namespace")
	default:
		p.steps = nil
	}
	return p
}

// conflict is the verdict on a bucket of another owner or of none. Others can write the text of its tag.
func conflict(b *v1beta1.StorageBucket, tags map[string]string) s3.Verdict {
	whose := "the bucket exists without the tag of this StorageBucket"
	if tags[v1beta1.BucketTagOwner] != "" {
		whose = "the bucket has the tag of another StorageBucket"
	}
	return s3.Verdict{Reason: v1beta1.ReasonBucketConflict, Message: fmt.Sprintf("%s, so the operator does not "+
		"change it; create another StorageBucket with another bucketName or with managementPolicy Observe; or, if "+
		"the bucket belongs to this StorageBucket, for example after a restore, set its tag with any S3 "+
		"client: %s=%s", whose, v1beta1.BucketTagOwner, b.UID)}
}
