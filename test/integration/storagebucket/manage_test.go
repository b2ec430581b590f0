// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/tags"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/integration/internal/operator"
)

// tag replaces all tags of a bucket.
func tag(ctx context.Context, bucket string, marks map[string]string) {
	GinkgoHelper()
	set, err := tags.NewTags(marks, false)
	Expect(err).NotTo(HaveOccurred())
	Expect(storage.Client().SetBucketTagging(ctx, bucket, set)).To(Succeed())
}

func put(ctx context.Context, bucket, object string) {
	GinkgoHelper()
	_, err := storage.Client().PutObject(ctx, bucket, object, strings.NewReader("data"), 4, minio.PutObjectOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// The golden reconciles test each response of a service. These specs test a real server's
// responses, and the stored objects when a leader is killed between a request and its record.
var _ = Describe("A managed bucket", decidedByService, func() {
	It("is created with the tag of its StorageBucket, in one request if the server can, after the intent was recorded",
		func(ctx SpecContext) {
			proxy, name := through(fault.Options{}), operator.Unique("managed")
			gate := fault.NewGate(fault.BeforeForward)
			injection := proxy.Inject(fault.Rule{Match: fault.Match{Methods: []string{http.MethodPut}}, Fault: gate})
			DeferCleanup(injection.Heal)
			b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketRetain)))
			held, err := gate.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(expect.Fetched(k8s, b)(ctx)).To(And(
				expect.HaveFinalizer(v1beta1.StorageBucketFinalizer),
				expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionUnknown, v1beta1.ReasonCreating),
				HaveField("Status.Provisioning", v1beta1.BucketIntended)), "before the first request that changes something")
			held.Release()
			injection.Heal()
			eventuallyReady(ctx, b)
			Expect(b.Status.Provisioning).To(Equal(v1beta1.BucketCreated))
			Expect(ownerOf(ctx, name)).To(BeEquivalentTo(b.UID))
			Eventually(ctx, reasonsOf(b)).Should(ConsistOf("Normal BucketCreated", "Normal BucketHealthy"))
			requests := 1
			if server().ignoresTags {
				requests = 2
			}
			Expect(proxy.Journal().Mutating()).To(HaveLen(requests))

			By("being retained with its tag, and not taken over by a new StorageBucket of the same name")
			Expect(k8s.Delete(ctx, b)).To(Succeed())
			Eventually(ctx, expect.Reading(k8s, b)).Should(expect.BeGone())
			Eventually(ctx, reasonsOf(b)).Should(ContainElement("Normal BucketRetained"))
			again := given(ctx, build(b.Namespace, proxy.URL(), name, managed(v1beta1.BucketDelete)))
			eventually(ctx, again, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
			Expect(again).To(stalled(v1beta1.ReasonBucketConflict))
			Expect(k8s.Delete(ctx, again)).To(Succeed())
			Eventually(ctx, expect.Reading(k8s, again)).Should(expect.BeGone())
			Expect(ownerOf(ctx, name)).To(BeEquivalentTo(b.UID))
			Expect(proxy.Journal().Mutating()).To(HaveLen(requests))
		}, SpecTimeout(time.Minute))

	It("outlives a StorageBucket that is deleted with --cascade=orphan, under Delete too", func(ctx SpecContext) {
		suite.NeedsControllers()
		b := given(ctx, build(place(ctx), storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		Expect(k8s.Delete(ctx, b, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(ctx, expect.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone())
		Eventually(ctx, reasonsOf(b)).Should(ContainElement("Normal BucketRetained"))
		Expect(ownerOf(ctx, b.Spec.BucketName)).To(BeEquivalentTo(b.UID))
	}, SpecTimeout(time.Minute))

	It("is not taken over if it exists, also in another account, and outlives the StorageBucket", func(ctx SpecContext) {
		namespace := place(ctx)
		stranger, err := storage.AddAccount(ctx)
		Expect(err).NotTo(HaveOccurred())
		keys(ctx, namespace, "stranger", stranger)
		for secret, reason := range map[string]string{
			credentials: v1beta1.ReasonBucketConflict, "stranger": v1beta1.ReasonAccessDenied} {
			name := bucketOnServer(ctx)
			b := given(ctx, build(namespace, storage.Endpoint(), name, managed(v1beta1.BucketDelete),
				func(b *v1beta1.StorageBucket) { b.Spec.CredentialsSecretRef.Name = secret }))
			eventually(ctx, b, metav1.ConditionFalse, reason)
			Expect(k8s.Delete(ctx, b)).To(Succeed())
			Eventually(ctx, expect.Reading(k8s, b)).Should(expect.BeGone())
			Expect(exists(ctx, name)).To(BeTrue())
			Expect(ownerOf(ctx, name)).To(BeEmpty())
		}
	}, SpecTimeout(time.Minute))

	It("belongs to its StorageBucket once somebody sets the tag that the message names", func(ctx SpecContext) {
		name := bucketOnServer(ctx)
		tag(ctx, name, map[string]string{v1beta1.BucketTagOwner: "11111111-2222-3333-4444-555555555555", "team": "a"})
		b := given(ctx, build(place(ctx), storage.Endpoint(), name, managed(v1beta1.BucketRetain),
			probing(3600, server().timeout, 1)))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
		Expect(b.Status.Conditions).To(ContainElement(HaveField("Message",
			HaveSuffix("set this tag on the bucket with any S3 client: %s=%s", v1beta1.BucketTagOwner, b.UID))))
		tag(ctx, name, map[string]string{v1beta1.BucketTagOwner: string(b.UID), "team": "a"})
		request(ctx, b, "now")
		eventuallyReady(ctx, b)
	}, SpecTimeout(time.Minute))

	// The leader is killed at each point at which the S3 server and the API server disagree.
	DescribeTable("is unique wherever the leader is killed", func(ctx SpecContext, at fault.Point, late bool) {
		suite.NeedsProcesses()
		DeferCleanup(func(ctx context.Context) { suite.StartReplicas(ctx) })
		proxy, name := through(fault.Options{}), operator.Unique("managed")
		gate := fault.NewGate(at)
		injection := proxy.Inject(fault.Rule{Match: fault.Match{Methods: []string{http.MethodPut}, To: 1}, Fault: gate})
		DeferCleanup(injection.Heal)
		b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketDelete)))
		held, err := gate.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		leader := suite.Leader(ctx)
		leader.Kill()
		Eventually(leader.Running).Should(BeFalse())
		Expect(expect.Fetched(k8s, b)(ctx)).To(HaveField("Status.Provisioning", v1beta1.BucketIntended))
		if !late {
			held.Cut()
		}
		if at == fault.AfterAnswer && server().ignoresTags {
			// Nothing shows that the bucket is the operator's. The message says how to tell it.
			eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
			tag(ctx, name, map[string]string{v1beta1.BucketTagOwner: string(b.UID)})
			request(ctx, b, "tagged")
		}
		eventuallyReady(ctx, b)
		Expect(suite.Leader(ctx).Name()).NotTo(Equal(leader.Name()))
		held.Release() // the former leader's request arrives after its successor's
		Expect(ownerOf(ctx, name)).To(BeEquivalentTo(b.UID))
		Expect(b.Status.Provisioning).To(Equal(v1beta1.BucketCreated))
		// A new spec is probed at once.
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) { b.Spec.Probe.PeriodSeconds++ })
		eventuallyReady(ctx, b)

		By("removing it completely")
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, expect.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone())
		Expect(exists(ctx, name)).To(BeFalse())
	},
		Entry("the request to create, which is lost", Serial, SpecTimeout(2*time.Minute), fault.BeforeForward, false),
		Entry("the request to create, which arrives after its successor's", Serial, SpecTimeout(2*time.Minute),
			fault.BeforeForward, true),
		Entry("the response, with a bucket that the status does not mention", Serial, SpecTimeout(2*time.Minute),
			fault.AfterAnswer, false),
	)

	It("is never emptied: the deletion reports that it waits for another client, or for Retain", func(ctx SpecContext) {
		proxy, namespace := through(fault.Options{}), place(ctx)
		var all []*v1beta1.StorageBucket
		for range 2 {
			b := given(ctx, build(namespace, proxy.URL(), operator.Unique("managed"), managed(v1beta1.BucketDelete)))
			eventuallyReady(ctx, b)
			put(ctx, b.Spec.BucketName, "precious")
			Expect(k8s.Delete(ctx, b)).To(Succeed())
			eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketNotEmpty)
			Eventually(ctx, reasonsOf(b)).Should(ContainElement("Warning BucketNotEmpty"))
			all = append(all, b)
		}
		Expect(proxy.Journal().Matching(fault.Match{Methods: []string{http.MethodDelete}})).To(BeEmpty(),
			"some servers would empty it")
		emptied, retained := all[0].Spec.BucketName, all[1].Spec.BucketName
		Expect(storage.Client().RemoveObject(ctx, emptied, "precious", minio.RemoveObjectOptions{})).To(Succeed())
		operator.Change(ctx, k8s, all[1], func(b *v1beta1.StorageBucket) { b.Spec.DeletionPolicy = v1beta1.BucketRetain })
		for _, b := range all {
			Eventually(ctx, expect.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone())
		}
		Expect(exists(ctx, emptied)).To(BeFalse())
		Expect(objectsOf(ctx, retained)).To(Equal([]string{"precious"}))
	}, SpecTimeout(time.Minute))

	It("is not removed while it has old versions, which a list of objects does not show", func(ctx SpecContext) {
		b := given(ctx, build(place(ctx), storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		client, name := storage.Client(), b.Spec.BucketName
		Expect(client.EnableVersioning(ctx, name)).To(Succeed())
		put(ctx, name, "precious")
		Expect(client.RemoveObject(ctx, name, "precious", minio.RemoveObjectOptions{})).To(Succeed())
		for object := range client.ListObjectsIter(ctx, name, minio.ListObjectsOptions{}) {
			Fail("listed: " + object.Key)
		}
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketNotEmpty)
		Expect(exists(ctx, name)).To(BeTrue())
	}, SpecTimeout(time.Minute))
})
