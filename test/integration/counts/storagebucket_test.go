// SPDX-License-Identifier: Apache-2.0

package counts_test

import (
	"context"

	"github.com/minio/minio-go/v7"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/s3server"
)

const (
	// team is the namespace of the StorageBuckets and MarkdownViews.
	team        = "team"
	credentials = "credentials"
	// day is the longest probe period in seconds: no second probe is due in a run.
	day = 86400
)

// s3 is the server of this suite, set by countBuckets.
var s3 *s3server.Server

func newBucket(name string, policy v1beta1.BucketManagementPolicy,
	deletion v1beta1.BucketDeletionPolicy) *v1beta1.StorageBucket {
	return &v1beta1.StorageBucket{ObjectMeta: named(team, name), Spec: v1beta1.StorageBucketSpec{
		BucketName: "counts-" + name, Endpoint: s3.Endpoint(), ManagementPolicy: policy, DeletionPolicy: deletion,
		CredentialsSecretRef: v1beta1.SecretReference{Name: credentials},
		Probe:                v1beta1.ProbeSpec{PeriodSeconds: day, TimeoutSeconds: 10, FailureThreshold: 1},
	}}
}

// countBuckets counts the life cycle of an observed StorageBucket and of two managed ones.
func (c *counter) countBuckets(ctx context.Context) {
	var err error
	s3, err = s3server.Start(context.WithoutCancel(ctx), s3server.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s3.Stop()).To(Succeed()) })
	create(&corev1.Namespace{ObjectMeta: named("", team)})(ctx)
	account := s3.Account()
	create(&corev1.Secret{ObjectMeta: named(team, credentials), StringData: map[string]string{
		v1beta1.SecretKeyAccessKeyID: account.AccessKey, v1beta1.SecretKeySecretAccessKey: account.SecretKey,
	}})(ctx)
	for _, step := range []step{c.rest, makeBucket("observed")} {
		step(ctx)
	}

	observed := newBucket("observed", v1beta1.BucketObserve, v1beta1.BucketRetain)
	retained := newBucket("retained", v1beta1.BucketManage, v1beta1.BucketRetain)
	managed := newBucket("managed", v1beta1.BucketManage, v1beta1.BucketDelete)
	edit := func(b *v1beta1.StorageBucket, f func(*v1beta1.ProbeSpec)) step {
		return then(change(b, func(b *v1beta1.StorageBucket) { f(&b.Spec.Probe) }), ready(b))
	}
	const made = "the finalizer; 2 statuses: the intent before the bucket is created, and the result; the Secret"
	c.count(ctx,
		phase{"storagebucket.create.observe", "the status; the Secret, past the cache for each probe",
			[]step{then(create(observed), ready(observed))}},
		phase{"storagebucket.create.manage", made, []step{then(create(managed), ready(managed))}},
		phase{"storagebucket.create.retain", made, []step{then(create(retained), ready(retained))}},
		phase{"storagebucket.update", "the status",
			[]step{edit(managed, func(s *v1beta1.ProbeSpec) { s.TimeoutSeconds = 9 })}},
		phase{"storagebucket.update.label", "nothing",
			[]step{change(managed, func(b *v1beta1.StorageBucket) { b.Labels = map[string]string{"example.com/a": "b"} })}},
		phase{"storagebucket.drift", "the status, for the generation that was observed; the object, before its bucket is created again",
			[]step{loseBucket("managed"), edit(managed, func(s *v1beta1.ProbeSpec) { s.TimeoutSeconds = 8 })}},
		phase{"storagebucket.delete.retain", "the finalizer; the namespace", []step{then(remove(retained), gone(retained))}},
		phase{"storagebucket.delete", "the finalizer; the namespace, which decides about lost keys and the place of events", []step{then(remove(managed), gone(managed))}},
		phase{"storagebucket.update.period", "the status",
			[]step{edit(observed, func(s *v1beta1.ProbeSpec) { s.PeriodSeconds = 10 })}},
		phase{"storagebucket.probe", "the Secret; the status does not change", []step{func(ctx context.Context) {
			c.awaitReconciles(ctx, 1, c.work(ctx), "storagebucket")
		}}},
		phase{"storagebucket.delete.observe", "nothing: there is no finalizer",
			[]step{then(remove(observed), gone(observed))}},
	)
}

// makeBucket and loseBucket replace the owner of a bucket, outside the cluster.
func makeBucket(name string) step {
	return func(ctx context.Context) {
		Expect(s3.Client().MakeBucket(ctx, "counts-"+name, minio.MakeBucketOptions{})).To(Succeed())
	}
}

func loseBucket(name string) step {
	return func(ctx context.Context) { Expect(s3.Client().RemoveBucket(ctx, "counts-"+name)).To(Succeed()) }
}
