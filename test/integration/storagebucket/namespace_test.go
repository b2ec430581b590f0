// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

// denial is the remedy in the policy's message.
const denial = "delete the StorageBucket first, or set its spec.deletionPolicy to Retain"

// namespaceOf returns an object to read or delete the namespace.
func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: named("", name)}
}

// secretOf returns the Secret that build refers to.
func secretOf(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: named(namespace, credentials)}
}

// deleting returns a function that deletes an object as a dry run.
func deleting(o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		return k8s.Delete(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

// eventuallyProtected waits until the API server applies the new policy, which can take half a minute.
func eventuallyProtected(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Eventually(ctx, deleting(o)).WithTimeout(expect.Long).Should(MatchError(ContainSubstring(denial)))
}

// eventsInDefault returns a function that lists the events in namespace default that are related to
// a StorageBucket, as "type reason".
func eventsInDefault(b *v1beta1.StorageBucket) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		var list eventsv1.EventList
		err := k8s.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault))
		var found []string
		for _, e := range list.Items {
			if e.Related != nil && e.Related.UID == b.UID {
				Expect(e.Regarding.Kind).To(Equal("Namespace"))
				Expect(e.Regarding.Name).To(Equal(b.Namespace))
				found = append(found, e.Type+" "+e.Reason)
			}
		}
		return found, err
	}
}

// leftBehind returns the existing buckets of StorageBuckets.
func leftBehind(ctx context.Context, of []*v1beta1.StorageBucket) []string {
	GinkgoHelper()
	var left []string
	for _, b := range of {
		if exists(ctx, b.Spec.BucketName) {
			left = append(left, b.Spec.BucketName)
		}
	}
	return left
}

var _ = Describe("The deletion of a namespace", operator.OldestKubernetes, decidedByService, func() {
	BeforeEach(suite.NeedsControllers)

	It("leaves no empty bucket with deletionPolicy Delete behind, also of StorageBuckets created right before",
		func(ctx SpecContext) {
			var all []*v1beta1.StorageBucket
			for i := range 6 {
				b := given(ctx, build(place(ctx), storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketDelete)))
				if i < 3 {
					eventuallyReady(ctx, b)
					eventuallyProtected(ctx, secretOf(b.Namespace))
				}
				Expect(k8s.Delete(ctx, namespaceOf(b.Namespace))).To(Succeed())
				all = append(all, b)
			}
			for i, b := range all {
				Eventually(ctx, expect.Reading(k8s, namespaceOf(b.Namespace))).WithTimeout(expect.Long).Should(expect.BeGone())
				if i < 3 {
					Eventually(ctx, eventsInDefault(b)).Should(Equal([]string{"Normal BucketDeleted"}))
				}
			}
			Expect(leftBehind(ctx, all)).To(BeEmpty())
		}, SpecTimeout(4*time.Minute))

	It("waits for a bucket that is not empty, names the way out, and ends with it", func(ctx SpecContext) {
		namespace := place(ctx)
		full := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("full"), managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, full)
		eventuallyProtected(ctx, secretOf(namespace))
		put(ctx, full.Spec.BucketName, "report.csv")
		Expect(k8s.Delete(ctx, namespaceOf(namespace))).To(Succeed())
		eventually(ctx, full, metav1.ConditionFalse, v1beta1.ReasonBucketNotEmpty)
		Expect(full.Status.Conditions).To(ContainElement(HaveField("Message",
			HaveSuffix("to keep the bucket instead, set spec.deletionPolicy to Retain"))))
		operator.Change(ctx, k8s, full, func(b *v1beta1.StorageBucket) { b.Spec.DeletionPolicy = v1beta1.BucketRetain })
		Eventually(ctx, expect.Reading(k8s, namespaceOf(namespace))).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(objectsOf(ctx, full.Spec.BucketName)).To(Equal([]string{"report.csv"}))
		Eventually(ctx, eventsInDefault(full)).Should(Equal([]string{"Normal BucketRetained"}))
	}, SpecTimeout(3*time.Minute))

	It("keeps a bucket whose Secret is gone, and says so once", func(ctx SpecContext) {
		namespace := place(ctx)
		secret := keys(ctx, namespace, "lost", storage.Account())
		b := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("kept"), managed(v1beta1.BucketDelete),
			func(b *v1beta1.StorageBucket) { b.Spec.CredentialsSecretRef.Name = secret.Name }))
		eventuallyReady(ctx, b)
		By("deleting the Secret while nothing protects it")
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) { b.Spec.DeletionPolicy = v1beta1.BucketRetain })
		Eventually(ctx, func(ctx context.Context) error { return k8s.Delete(ctx, secret.DeepCopy()) }).
			WithTimeout(expect.Long).Should(Succeed())
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) { b.Spec.DeletionPolicy = v1beta1.BucketDelete })
		Expect(k8s.Delete(ctx, namespaceOf(namespace))).To(Succeed())
		Eventually(ctx, expect.Reading(k8s, namespaceOf(namespace))).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(exists(ctx, b.Spec.BucketName)).To(BeTrue())
		Eventually(ctx, eventsInDefault(b)).Should(Equal([]string{"Warning BucketRetained"}))
	}, SpecTimeout(3*time.Minute))
})

// test/manifests evaluates the policy for each kind of bucket and object.
var _ = Describe("The credentials of a managed bucket", operator.OldestKubernetes, func() {
	It("cannot be deleted while they are needed to remove it, and others can", func(ctx SpecContext) {
		namespace, elsewhere := place(ctx), place(ctx)
		ca := &corev1.ConfigMap{ObjectMeta: named(namespace, "ca")}
		Expect(k8s.Create(ctx, ca)).To(Succeed())
		spare := keys(ctx, namespace, "spare", storage.Account())
		b := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketDelete)))
		given(ctx, build(namespace, "https://s3.example.com", operator.Unique("managed"), managed(v1beta1.BucketDelete),
			func(b *v1beta1.StorageBucket) {
				b.Spec.CABundleRef, b.Spec.CredentialsSecretRef.Name = &v1beta1.ConfigMapKeyReference{Name: ca.Name}, "missing"
			}))
		eventuallyReady(ctx, b)
		eventuallyProtected(ctx, secretOf(namespace))
		Expect(deleting(ca)(ctx)).To(MatchError(ContainSubstring(denial)))
		Expect(k8s.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(namespace),
			client.MatchingFields{"metadata.name": credentials}, client.DryRunAll)).
			To(MatchError(ContainSubstring(denial)))
		for _, free := range []client.Object{spare, secretOf(elsewhere)} {
			Expect(deleting(free)(ctx)).To(Succeed(), free.GetName())
		}
		operator.Change(ctx, k8s, secretOf(namespace), func(s *corev1.Secret) { s.Data["rotated"] = []byte("in place") })

		By("removing the bucket while a finalizer that is not ours keeps the StorageBucket")
		operator.Change(ctx, k8s, b,
			func(b *v1beta1.StorageBucket) { b.Finalizers = append(b.Finalizers, "example.com/other") })
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, exists).WithArguments(b.Spec.BucketName).WithTimeout(expect.Medium).Should(BeFalse())
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) {
			b.Finalizers = slices.DeleteFunc(b.Finalizers, func(f string) bool { return f == "example.com/other" })
		})
	}, SpecTimeout(3*time.Minute))
})
