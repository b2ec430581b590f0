package storagebucket_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/integration/internal/operator"
)

// denial is the part of the policy's denial that gives the advice.
const denial = "delete the StorageBucket first, or set its spec.deletionPolicy to Retain"

// namespaceOf is the namespace of that name, to read or delete it.
func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: named("", name)}
}

// secretOf is the Secret that build refers to.
func secretOf(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: named(namespace, credentials)}
}

// deleting tries to delete an object, as a dry run.
func deleting(o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		return k8s.Delete(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

// eventuallyProtected waits until an API server that was just given the policy
// has begun to judge by it, which takes it up to half a minute.
func eventuallyProtected(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Eventually(ctx, deleting(o)).WithTimeout(expect.Long).Should(MatchError(ContainSubstring(denial)))
}

// removedWithNamespace gives a namespace n managed buckets that are Ready.
func removedWithNamespace(ctx context.Context, namespace string, n int) []*v1beta1.StorageBucket {
	GinkgoHelper()
	var all []*v1beta1.StorageBucket
	for range n {
		all = append(all, given(ctx, build(namespace, storage.Endpoint(), operator.Unique("managed"),
			managed(v1beta1.BucketDelete))))
	}
	return all
}

// eventsInDefault are the events in namespace default that are related to a
// StorageBucket, as "type reason".
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

// leftBehind are the buckets of StorageBuckets that still exist.
func leftBehind(of []*v1beta1.StorageBucket) []string {
	GinkgoHelper()
	var left []string
	for _, b := range of {
		if exists(b.Spec.BucketName) {
			left = append(left, b.Spec.BucketName)
		}
	}
	return left
}

var _ = Describe("The deletion of a namespace", operator.OldestKubernetes, func() {
	It("leaves no empty bucket with deletionPolicy Delete behind", func(ctx SpecContext) {
		suite.NeedsControllers()
		var all []*v1beta1.StorageBucket
		var namespaces []string
		for range 4 {
			namespace := place(ctx)
			namespaces = append(namespaces, namespace)
			all = append(all, removedWithNamespace(ctx, namespace, 5)...)
		}
		for _, b := range all {
			eventuallyReady(ctx, b)
		}
		Expect(leftBehind(all)).To(HaveLen(20), "they are all there before")
		eventuallyProtected(ctx, secretOf(namespaces[0]))
		began := time.Now()
		for _, namespace := range namespaces {
			Expect(k8s.Delete(ctx, namespaceOf(namespace))).To(Succeed())
		}
		for _, namespace := range namespaces {
			Eventually(ctx, operator.Reading(k8s, namespaceOf(namespace))).WithTimeout(expect.Long).Should(expect.BeGone())
		}
		AddReportEntry("4 namespaces with 5 managed buckets each were gone after",
			time.Since(began).Round(100*time.Millisecond))
		Expect(leftBehind(all)).To(BeEmpty())
		for _, b := range all {
			Eventually(ctx, eventsInDefault(b)).Should(Equal([]string{"Normal BucketDeleted"}))
		}
	}, SpecTimeout(4*time.Minute))

	It("leaves none behind either where it is a Tenant that is deleted", func(ctx SpecContext) {
		suite.NeedsControllers()
		tenant := &v1beta1.Tenant{ObjectMeta: named("", operator.Unique("tenant")), Spec: v1beta1.TenantSpec{
			Namespaces:              []v1beta1.NamespaceSuffix{"a", "b", "c", "d"},
			Admins:                  []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "somebody"}},
			NamespaceDeletionPolicy: v1beta1.NamespaceDelete,
		}}
		Expect(k8s.Create(ctx, tenant)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, tenant))).To(Succeed()) })
		Eventually(ctx, operator.Fetched(k8s, tenant)).WithTimeout(expect.Medium).Should(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled))
		var all []*v1beta1.StorageBucket
		for _, suffix := range tenant.Spec.Namespaces {
			namespace := tenant.Name + "-" + string(suffix)
			keys(ctx, namespace, credentials, storage.Account())
			all = append(all, removedWithNamespace(ctx, namespace, 5)...)
		}
		for _, b := range all {
			eventuallyReady(ctx, b)
		}
		eventuallyProtected(ctx, secretOf(tenant.Name+"-a"))
		Expect(k8s.Delete(ctx, tenant)).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, tenant)).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(leftBehind(all)).To(BeEmpty())
	}, SpecTimeout(4*time.Minute))

	It("leaves none behind where a StorageBucket was created right before", func(ctx SpecContext) {
		suite.NeedsControllers()
		protected := place(ctx)
		removedWithNamespace(ctx, protected, 1)
		eventuallyProtected(ctx, secretOf(protected))
		var all []*v1beta1.StorageBucket
		var namespaces []string
		for range 10 {
			namespace := place(ctx)
			namespaces = append(namespaces, namespace)
			all = append(all, removedWithNamespace(ctx, namespace, 1)...)
			Expect(k8s.Delete(ctx, namespaceOf(namespace))).To(Succeed())
		}
		for _, namespace := range namespaces {
			Eventually(ctx, operator.Reading(k8s, namespaceOf(namespace))).WithTimeout(expect.Long).Should(expect.BeGone())
		}
		Expect(leftBehind(all)).To(BeEmpty())
	}, SpecTimeout(4*time.Minute))

	It("ends although an endpoint is dead, the keys are wrong or a bucket is not empty", func(ctx SpecContext) {
		replica := ownInstallation(ctx, env.Options{}, "--bucket-removal-grace-period=12s")
		proxy, namespace := through(fault.Options{}), place(ctx)
		dead := given(ctx, build(namespace, proxy.URL(), operator.Unique("dead"), managed(v1beta1.BucketDelete)))
		full := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("full"), managed(v1beta1.BucketDelete)))
		keys(ctx, namespace, "other", storage.Account())
		locked := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("locked"), managed(v1beta1.BucketDelete),
			func(b *v1beta1.StorageBucket) {
				b.Spec.CredentialsSecretRef.Name = "other"
			}))
		all := []*v1beta1.StorageBucket{dead, full, locked}
		for _, b := range all {
			eventuallyReady(ctx, b)
		}
		eventuallyProtected(ctx, secretOf(namespace))
		put(ctx, full.Spec.BucketName, "report.csv")
		proxy.Inject(fault.Rule{Fault: fault.BlackHole{}})
		operator.Change(ctx, k8s, &corev1.Secret{ObjectMeta: named(namespace, "other")}, func(s *corev1.Secret) {
			s.Data[v1beta1.SecretKeySecretAccessKey] = []byte("wrong")
		})
		Expect(k8s.Delete(ctx, namespaceOf(namespace))).To(Succeed())
		eventually(ctx, full, metav1.ConditionFalse, v1beta1.ReasonBucketNotEmpty)
		Expect(full.Status.Conditions).To(ContainElement(HaveField("Message",
			MatchRegexp(`set spec.deletionPolicy to Retain, which keeps the bucket\. The namespace is being deleted: the operator keeps the bucket if it cannot remove it before \S+Z$`))))
		Eventually(ctx, operator.Reading(k8s, namespaceOf(namespace))).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(leftBehind(all)).To(HaveLen(3))
		Expect(storage.Objects(full.Spec.BucketName)).To(Equal([]string{"report.csv"}))
		for _, b := range all {
			Eventually(ctx, eventsInDefault(b)).Should(Equal([]string{"Warning BucketRetained"}))
		}
		for _, reason := range []string{v1beta1.ReasonProbeTimeout, v1beta1.ReasonBucketNotEmpty,
			v1beta1.ReasonInvalidCredentials} {
			Eventually(ctx, retainedBuckets(replica, reason)).Should(BeEquivalentTo(1), reason)
		}
	}, SpecTimeout(5*time.Minute))

	It("records which buckets it left behind where the policy does not deny", func(ctx SpecContext) {
		replica := ownInstallation(ctx, env.Options{})
		namespace := place(ctx)
		b := removedWithNamespace(ctx, namespace, 1)[0]
		eventuallyReady(ctx, b)
		eventuallyProtected(ctx, secretOf(namespace))
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named("",
			"leasehold-credentials.leasehold.dev")}
		operator.Change(ctx, k8s, binding, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
		})
		Eventually(ctx, deleting(secretOf(namespace))).WithTimeout(expect.Medium).Should(Succeed())
		// The worst order of all: the Secret is gone before the StorageBucket is deleted.
		Expect(k8s.Delete(ctx, secretOf(namespace))).To(Succeed())
		Expect(k8s.Delete(ctx, namespaceOf(namespace))).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, namespaceOf(namespace))).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(ownerOf(ctx, b.Spec.BucketName)).To(BeEquivalentTo(b.UID))
		Eventually(ctx, eventsInDefault(b)).Should(Equal([]string{"Warning BucketRetained"}))
		Eventually(ctx, retainedBuckets(replica, v1beta1.ReasonCredentialsNotFound)).Should(BeEquivalentTo(1))
	}, SpecTimeout(5*time.Minute))
})

var _ = Describe("The credentials of a managed bucket", operator.OldestKubernetes, func() {
	It("stay while they are needed to remove it, and only those", func(ctx SpecContext) {
		suite.NeedsControllers() // one of them makes kube-root-ca.crt
		namespace, elsewhere := place(ctx), place(ctx)
		ca := &corev1.ConfigMap{ObjectMeta: named(namespace, "ca")}
		Expect(k8s.Create(ctx, ca)).To(Succeed())
		other, spare := keys(ctx, namespace, "other", storage.Account()), keys(ctx, namespace, "spare", storage.Account())
		b := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketDelete)))
		given(ctx, build(namespace, "https://s3.example.com", operator.Unique("managed"), managed(v1beta1.BucketDelete),
			func(b *v1beta1.StorageBucket) {
				b.Spec.CABundleRef, b.Spec.CredentialsSecretRef.Name = &v1beta1.ConfigMapKeyReference{Name: ca.Name}, "of-nobody"
			}))
		for _, with := range []func(*v1beta1.StorageBucket){managed(v1beta1.BucketRetain), func(*v1beta1.StorageBucket) {}} {
			given(ctx, build(namespace, storage.Endpoint(), operator.Unique("spared"), with, func(b *v1beta1.StorageBucket) {
				b.Spec.CredentialsSecretRef.Name = other.Name
			}))
		}
		eventuallyReady(ctx, b)
		eventuallyProtected(ctx, secretOf(namespace))
		Expect(deleting(ca)(ctx)).To(MatchError(ContainSubstring(denial)))
		Expect(deleting(secretOf(namespace))(ctx)).
			To(MatchError(ContainSubstring("StorageBucket " + b.Name + " needs this object")))
		Expect(k8s.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(namespace),
			client.MatchingFields{"metadata.name": credentials}, client.DryRunAll)).
			To(MatchError(ContainSubstring(denial)))

		By("trying what is close to that, and none of its business")
		for _, free := range []client.Object{
			other,               // of Retain and of Observe
			spare,               // of none
			secretOf(elsewhere), // of that name, in another namespace
			&corev1.ConfigMap{ObjectMeta: named(namespace, "kube-root-ca.crt")},
		} {
			Eventually(ctx, deleting(free)).Should(Succeed(), free.GetName())
		}
		operator.Change(ctx, k8s, secretOf(namespace), func(s *corev1.Secret) { s.Data["rotated"] = []byte("in place") })

		By("letting go of the bucket: the Secret is free with it")
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) { b.Spec.DeletionPolicy = v1beta1.BucketRetain })
		Eventually(ctx, deleting(secretOf(namespace))).Should(Succeed())
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) {
			b.Spec.DeletionPolicy, b.Finalizers = v1beta1.BucketDelete, append(b.Finalizers, "example.com/other")
		})
		eventuallyProtected(ctx, secretOf(namespace))

		By("removing the bucket while a finalizer that is not ours holds the StorageBucket")
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, deleting(secretOf(namespace))).WithTimeout(expect.Medium).Should(Succeed())
		Expect(exists(b.Spec.BucketName)).To(BeFalse())
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) {
			b.Finalizers = slices.DeleteFunc(b.Finalizers, func(f string) bool { return f == "example.com/other" })
		})
	}, SpecTimeout(3*time.Minute))
})
