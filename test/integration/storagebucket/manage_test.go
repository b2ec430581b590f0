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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/integration/internal/operator"
)

// creation matches the requests that create or tag a bucket.
var creation = fault.Match{Methods: []string{http.MethodPut}}

// tag puts a mark on a bucket, in place of all others.
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

var _ = Describe("A managed bucket", func() {
	It("is created with the mark of its StorageBucket in one request, after the intent was recorded",
		func(ctx SpecContext) {
			proxy, name := through(fault.Options{}), operator.Unique("managed")
			gate := fault.NewGate(fault.BeforeForward)
			injection := proxy.Inject(fault.Rule{Match: creation, Fault: gate})
			DeferCleanup(gate.Open)
			b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketRetain)))
			held, err := gate.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(operator.Fetched(k8s, b)(ctx)).To(And(
				expect.HaveFinalizer(v1beta1.StorageBucketFinalizer),
				expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionUnknown, v1beta1.ReasonCreating),
				HaveField("Status.Provisioning", v1beta1.BucketIntended)), "before the first request that changes something")
			held.Release()
			injection.Heal()
			eventuallyReady(ctx, b)
			Expect(b.Status.Provisioning).To(Equal(v1beta1.BucketCreated))
			Expect(ownerOf(ctx, name)).To(BeEquivalentTo(b.UID))
			Eventually(ctx, reasonsOf(b)).Should(ConsistOf("Normal BucketCreated", "Normal BucketHealthy"))
			Expect(proxy.Journal().Mutating()).To(HaveLen(1))
		}, SpecTimeout(time.Minute))

	It("is not taken over where one exists, tagged or not, and survives the end of who wanted it", func(ctx SpecContext) {
		proxy, namespace := through(fault.Options{}), place(ctx)
		plain, tagged, others := bucketOnServer(ctx), bucketOnServer(ctx), bucketOnServer(ctx)
		tag(ctx, tagged, map[string]string{"team": "somebody"})
		tag(ctx, others, map[string]string{v1beta1.BucketTagOwner: "11111111-2222-3333-4444-555555555555"})
		for _, name := range []string{plain, tagged, others} {
			mark := ownerOf(ctx, name)
			b := given(ctx, build(namespace, proxy.URL(), name, managed(v1beta1.BucketDelete)))
			eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
			Expect(b).To(stalled(v1beta1.ReasonBucketConflict))
			Expect(k8s.Delete(ctx, b)).To(Succeed())
			Eventually(ctx, operator.Reading(k8s, b)).Should(expect.BeGone())
			Expect(exists(name)).To(BeTrue())
			Expect(ownerOf(ctx, name)).To(Equal(mark))
			Eventually(ctx, reasonsOf(b)).Should(Equal([]string{"Warning BucketConflict"}))
		}
		Expect(proxy.Journal().Mutating()).To(BeEmpty())
	}, SpecTimeout(time.Minute))

	It("is not taken over from another account", func(ctx SpecContext) {
		namespace, name := place(ctx), bucketOnServer(ctx)
		stranger, err := storage.AddAccount(ctx, env.S3RoleUserPlus)
		Expect(err).NotTo(HaveOccurred())
		keys(ctx, namespace, "stranger", stranger)
		b := given(ctx, build(namespace, storage.Endpoint(), name, managed(v1beta1.BucketDelete),
			func(b *v1beta1.StorageBucket) {
				b.Spec.CredentialsSecretRef.Name = "stranger"
			}))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonAccessDenied)
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, b)).Should(expect.BeGone())
		Expect(exists(name)).To(BeTrue())
	}, SpecTimeout(time.Minute))

	It("loses a race for its name without harm: who was first keeps the bucket", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), operator.Unique("raced")
		gate := fault.NewGate(fault.BeforeForward)
		proxy.Inject(fault.Rule{Match: creation, Fault: gate})
		DeferCleanup(gate.Open)
		b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketDelete)))
		_, err := gate.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(storage.Client().MakeBucket(ctx, name, minioDefaults)).To(Succeed())
		gate.Open()
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
		Expect(ownerOf(ctx, name)).To(BeEmpty())
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, b)).Should(expect.BeGone())
		Expect(exists(name)).To(BeTrue())
		Eventually(ctx, reasonsOf(b)).Should(ContainElement("Warning BucketRetained"))
	}, SpecTimeout(time.Minute))

	It("belongs to one of two that want it", func(ctx SpecContext) {
		name := operator.Unique("wanted")
		first := given(ctx, build(place(ctx), storage.Endpoint(), name, managed(v1beta1.BucketRetain)))
		second := given(ctx, build(place(ctx), storage.Endpoint(), name, managed(v1beta1.BucketDelete)))
		ready := func(ctx context.Context) (int, error) {
			n := 0
			for _, b := range []*v1beta1.StorageBucket{first, second} {
				if err := k8s.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
					return 0, err
				}
				for _, c := range b.Status.Conditions {
					if c.Type == v1beta1.ConditionReady && c.Status != metav1.ConditionUnknown {
						n++
					}
				}
			}
			return n, nil
		}
		Eventually(ctx, ready).WithTimeout(expect.Medium).Should(Equal(2))
		owner := ownerOf(ctx, name)
		for _, b := range []*v1beta1.StorageBucket{first, second} {
			if owner == string(b.UID) {
				eventuallyReady(ctx, b)
			} else {
				eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
			}
		}
		Expect(owner).To(Or(BeEquivalentTo(first.UID), BeEquivalentTo(second.UID)))
	}, SpecTimeout(time.Minute))

	It("is created again when it was removed outside, and no longer ours when it lost its mark", func(ctx SpecContext) {
		name := operator.Unique("managed")
		b := given(ctx, build(place(ctx), storage.Endpoint(), name, managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		Expect(storage.Client().RemoveBucket(ctx, name)).To(Succeed())
		Eventually(func() bool { return exists(name) }).WithTimeout(expect.Medium).Should(BeTrue())
		Eventually(func() string { return ownerOf(ctx, name) }).Should(BeEquivalentTo(b.UID))
		Expect(storage.Client().RemoveBucketTagging(ctx, name)).To(Succeed())
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
		By("handing it back by the tag that the message names")
		Expect(b.Status.Conditions).To(ContainElement(HaveField("Message",
			ContainSubstring(v1beta1.BucketTagOwner+"="+string(b.UID)))))
		tag(ctx, name, map[string]string{v1beta1.BucketTagOwner: string(b.UID)})
		eventuallyReady(ctx, b)
	}, SpecTimeout(2*time.Minute))

	It("works where the server does not know tags in the request that creates", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), operator.Unique("managed")
		injection := proxy.Inject(fault.Rule{
			Match: fault.Match{Methods: []string{http.MethodPut}, To: 1},
			Fault: fault.S3Error(http.StatusBadRequest, "MalformedXML"),
		})
		b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketRetain)))
		eventuallyReady(ctx, b)
		Expect(injection.Count()).To(Equal(1))
		Expect(ownerOf(ctx, name)).To(BeEquivalentTo(b.UID))
	}, SpecTimeout(time.Minute))

	It("says what stands in its way, and is created once that is gone", func(ctx SpecContext) {
		namespace, name := place(ctx), operator.Unique("managed")
		weak, err := storage.AddAccount(ctx, env.S3RoleUser)
		Expect(err).NotTo(HaveOccurred())
		secret := keys(ctx, namespace, "weak", weak)
		b := given(ctx, build(namespace, storage.Endpoint(), name, managed(v1beta1.BucketDelete),
			func(b *v1beta1.StorageBucket) {
				b.Spec.CredentialsSecretRef.Name = "weak"
			}))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonAccessDenied)
		Expect(b.Status.Provisioning).To(Equal(v1beta1.BucketIntended))
		operator.Change(ctx, k8s, secret, func(s *corev1.Secret) {
			s.Data[v1beta1.SecretKeyAccessKeyID] = []byte(storage.Account().AccessKey)
			s.Data[v1beta1.SecretKeySecretAccessKey] = []byte(storage.Account().SecretKey)
		})
		eventuallyReady(ctx, b)
	}, SpecTimeout(time.Minute))

	// The leader dies at each point at which something outside has happened that
	// the API server does not know of, or the other way round.
	DescribeTable("is exactly one whatever the leader dies at", func(ctx SpecContext, at fault.Point, late bool) {
		suite.NeedsProcesses()
		DeferCleanup(func(ctx context.Context) { suite.StartReplicas(ctx) })
		proxy, name := through(fault.Options{}), operator.Unique("managed")
		gate := fault.NewGate(at)
		proxy.Inject(fault.Rule{Match: fault.Match{Methods: []string{http.MethodPut}, To: 1}, Fault: gate})
		DeferCleanup(gate.Open)
		b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketDelete)))
		held, err := gate.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		leader := suite.Leader(ctx)
		leader.Kill()
		Eventually(leader.Running).Should(BeFalse())
		Expect(operator.Fetched(k8s, b)(ctx)).To(HaveField("Status.Provisioning", v1beta1.BucketIntended))
		if !late {
			held.Cut()
		}
		eventuallyReady(ctx, b)
		Expect(suite.Leader(ctx).Name()).NotTo(Equal(leader.Name()))
		held.Release() // the dead leader's request arrives after its successor's work
		Expect(ownerOf(ctx, name)).To(BeEquivalentTo(b.UID))
		Expect(b.Status.Provisioning).To(Equal(v1beta1.BucketCreated))
		// A new spec is probed at once.
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) { b.Spec.Probe.PeriodSeconds++ })
		eventuallyReady(ctx, b)

		By("removing it: nothing of it is left behind")
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone())
		Expect(exists(name)).To(BeFalse())
	},
		Entry("the request to create, which is lost", Serial, SpecTimeout(2*time.Minute), fault.BeforeForward, false),
		Entry("the request to create, which arrives after its successor's", Serial, SpecTimeout(2*time.Minute),
			fault.BeforeForward, true),
		Entry("the answer, with the bucket there and no word of it in the status", Serial, SpecTimeout(2*time.Minute),
			fault.AfterAnswer, false),
	)
})

var _ = Describe("The end of a managed bucket", func() {
	It("keeps the bucket under Retain, with its mark", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), operator.Unique("managed")
		b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketRetain)))
		eventuallyReady(ctx, b)
		before := len(proxy.Journal().Requests)
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, b)).Should(expect.BeGone())
		Expect(ownerOf(ctx, name)).To(BeEquivalentTo(b.UID))
		for _, r := range proxy.Journal().Requests[before:] {
			Expect(r.Method).To(Equal(http.MethodHead), "at most a probe that was due in this moment")
		}
		Eventually(ctx, reasonsOf(b)).Should(ContainElement("Normal BucketRetained"))
		By("making the StorageBucket anew: the bucket is its predecessor's and not taken over")
		again := given(ctx, build(b.Namespace, proxy.URL(), name, managed(v1beta1.BucketRetain)))
		eventually(ctx, again, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
	}, SpecTimeout(time.Minute))

	It("removes an empty bucket under Delete", func(ctx SpecContext) {
		name := operator.Unique("managed")
		b := given(ctx, build(place(ctx), storage.Endpoint(), name, managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		Expect(exists(name)).To(BeTrue())
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, b)).Should(expect.BeGone())
		Expect(exists(name)).To(BeFalse())
		Eventually(ctx, reasonsOf(b)).Should(ContainElement("Normal BucketDeleted"))
	}, SpecTimeout(time.Minute))

	It("never empties a bucket: it waits visibly until another client does", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), operator.Unique("managed")
		b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		put(ctx, name, "precious")
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketNotEmpty)
		Expect(b.Status.Conditions).To(ContainElement(HaveField("Message",
			ContainSubstring("set spec.deletionPolicy to Retain"))))
		looks := func() []fault.ProxiedRequest {
			return proxy.Journal().Matching(fault.Match{Methods: []string{http.MethodGet},
				Query: map[string]string{"list-type": ""}})
		}
		Eventually(func() int { return len(looks()) }).WithTimeout(expect.Medium).Should(BeNumerically(">=", 2))
		Expect(proxy.Journal().Matching(fault.Match{Methods: []string{http.MethodDelete}})).To(BeEmpty(),
			"some servers would empty it")
		Expect(storage.Objects(name)).To(Equal([]string{"precious"}))
		Eventually(ctx, reasonsOf(b)).Should(ContainElement("Warning BucketNotEmpty"))
		Expect(storage.Client().RemoveObject(ctx, name, "precious", minio.RemoveObjectOptions{})).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone())
		Expect(exists(name)).To(BeFalse())
	}, SpecTimeout(time.Minute))

	It("lets go of a bucket with objects as soon as Retain is asked for", func(ctx SpecContext) {
		name := operator.Unique("managed")
		b := given(ctx, build(place(ctx), storage.Endpoint(), name, managed(v1beta1.BucketDelete), probing(3600, 10, 3)))
		eventuallyReady(ctx, b)
		put(ctx, name, "precious")
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketNotEmpty)
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) { b.Spec.DeletionPolicy = v1beta1.BucketRetain })
		Eventually(ctx, operator.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone(),
			"long before the next try")
		Expect(storage.Objects(name)).To(Equal([]string{"precious"}))
	}, SpecTimeout(time.Minute))

	It("does not wait for anything under Retain: a dead endpoint, a lost Secret", func(ctx SpecContext) {
		proxy, namespace := through(fault.Options{}), place(ctx)
		dead := given(ctx, build(namespace, proxy.URL(), operator.Unique("managed"), managed(v1beta1.BucketRetain)))
		bare := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketRetain)))
		eventuallyReady(ctx, dead)
		eventuallyReady(ctx, bare)
		hole := proxy.Inject(fault.Rule{Fault: fault.BlackHole{}})
		Eventually(hole.Count).WithTimeout(expect.Medium).Should(BeNumerically(">=", 1))
		Expect(k8s.Delete(ctx, &corev1.Secret{ObjectMeta: named(namespace, credentials)})).To(Succeed())
		eventually(ctx, bare, metav1.ConditionFalse, v1beta1.ReasonCredentialsNotFound)
		for _, b := range []*v1beta1.StorageBucket{dead, bare} {
			Expect(k8s.Delete(ctx, b)).To(Succeed())
			Eventually(ctx, operator.Reading(k8s, b)).Should(expect.BeGone())
		}
	}, SpecTimeout(time.Minute))

	It("waits visibly for a dead endpoint under Delete, and ends when it is back", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), operator.Unique("managed")
		b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		cut := proxy.Inject(fault.Rule{Fault: fault.Cut{At: fault.BeforeForward}})
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonEndpointUnreachable)
		cut.Heal()
		Eventually(ctx, operator.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone())
		Expect(exists(name)).To(BeFalse())
	}, SpecTimeout(time.Minute))

	It("does not take a balancer's 404 for the end of the bucket, nor for its absence", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), operator.Unique("managed")
		b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		away := proxy.Inject(fault.Rule{Fault: fault.Answer{Status: http.StatusNotFound, Body: "404 page not found\n"}})
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonServerError)
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		seen := away.Count()
		Eventually(away.Count).WithTimeout(expect.Medium).Should(BeNumerically(">", seen))
		Eventually(ctx, operator.Fetched(k8s, b)).Should(And(
			expect.HaveFinalizer(v1beta1.StorageBucketFinalizer),
			HaveField("Status.Conditions", ContainElement(HaveField("Message", HavePrefix("waiting to remove the bucket"))))))
		Expect(ownerOf(ctx, name)).To(BeEquivalentTo(b.UID))
		away.Heal()
		Eventually(ctx, operator.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone())
		Expect(exists(name)).To(BeFalse())
		Expect(proxy.Journal().Matching(creation)).To(HaveLen(1))
	}, SpecTimeout(time.Minute))

	It("never removes a bucket that lost its mark", func(ctx SpecContext) {
		name := operator.Unique("managed")
		b := given(ctx, build(place(ctx), storage.Endpoint(), name, managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		tag(ctx, name, map[string]string{"team": "somebody"})
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, b)).Should(expect.BeGone())
		Expect(exists(name)).To(BeTrue())
		Eventually(ctx, reasonsOf(b)).Should(ContainElement("Warning BucketRetained"))
	}, SpecTimeout(time.Minute))

	It("does not keep a namespace from going under Retain, whatever has died", func(ctx SpecContext) {
		suite.NeedsControllers()
		proxy, namespace := through(fault.Options{}), place(ctx)
		hole := proxy.Inject(fault.Rule{Fault: fault.BlackHole{}})
		for range 5 {
			given(ctx, build(namespace, proxy.URL(), "dark"))
		}
		kept := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketRetain)))
		eventuallyReady(ctx, kept)
		put(ctx, kept.Spec.BucketName, "precious")
		Eventually(hole.Count).WithTimeout(expect.Medium).Should(BeNumerically(">=", 1))
		Expect(k8s.Delete(ctx, &corev1.Namespace{ObjectMeta: named("", namespace)})).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, &corev1.Namespace{ObjectMeta: named("", namespace)})).
			WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(storage.Objects(kept.Spec.BucketName)).To(Equal([]string{"precious"}))
		Eventually(ctx, eventsInDefault(kept)).Should(Equal([]string{"Normal BucketRetained"}))
	}, SpecTimeout(3*time.Minute))
})

var _ = Describe("Writes of a managed bucket", func() {
	It("are no more than needed: finalizer, intent, outcome, and the finalizer's end", func(ctx SpecContext) {
		position := suite.AuditPosition()
		b := given(ctx, build(place(ctx), storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, b)).Should(expect.BeGone())
		Eventually(func() []string { return suite.Writes(position, record.InNamespace(b.Namespace), record.Succeeded) }).
			Should(Equal([]string{
				"patch storagebuckets/ " + b.Name, "patch storagebuckets/status " + b.Name,
				"patch storagebuckets/status " + b.Name, "patch storagebuckets/ " + b.Name,
			}))
	}, SpecTimeout(time.Minute))
})
