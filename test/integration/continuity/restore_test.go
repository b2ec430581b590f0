// SPDX-License-Identifier: Apache-2.0

package continuity_test

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/tags"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/s3server"
)

const (
	tenantName = "restored"
	namespace  = tenantName + "-dev"
	bucketName = "restored-data"
)

// restoration is a Tenant with a managed bucket that move from one cluster to another. The S3
// server outlives both.
type restoration struct {
	storage *s3server.Server
	backup  string // the folder
	former  types.UID
	kube    client.Client // the new cluster's
	tenant  *v1beta1.Tenant
	bucket  *v1beta1.StorageBucket
	view    *v1beta1.MarkdownView
	child   *corev1.ConfigMap // of the view, in the backup of the contents
	thief   *v1beta1.StorageBucket
}

var _ = Describe("A backup that is restored into a new cluster", func() {
	It("does not change namespaces and buckets until an administrator hands them over", func(ctx SpecContext) {
		storage, err := s3server.Start(context.WithoutCancel(ctx), s3server.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(storage.Stop)
		r := &restoration{storage: storage, backup: GinkgoT().TempDir()}

		By("backing up a cluster and removing it")
		old, lose := start(ctx)
		r.kube = old.Client
		r.populate(ctx)
		runDocumented(ctx, old, "operations.md", "Back up with:", r.backup)
		lose(ctx)

		By("restoring it by the documented commands")
		fresh, _ := start(ctx)
		r.kube = fresh.Client
		runDocumented(ctx, fresh, "operations.md", "and restore the namespaces:", r.backup)
		r.secret(ctx, namespace)
		Expect(r.kube.Create(ctx, r.child)).To(Succeed())
		runDocumented(ctx, fresh, "operations.md", "then restore the custom resources:", r.backup)
		r.refusesToTakeOver(ctx)

		By("handing namespaces over by the documented commands")
		runDocumented(ctx, fresh, "operations.md", "over the namespaces:", r.backup)
		Eventually(ctx, expect.Fetched(r.kube, r.tenant)).WithTimeout(expect.Medium).Should(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled))
		Expect(r.owner(ctx)).To(Equal(r.former), "the bucket is not handed over yet")

		By("tagging buckets as documented, for their StorageBucket alone")
		r.steal(ctx)
		runDocumented(ctx, fresh, "operations.md", "List the present and the new value of each tag:", r.backup)
		r.tag(ctx)
		Eventually(ctx, expect.Fetched(r.kube, r.bucket)).WithTimeout(expect.Long).Should(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded))
		Expect(r.owner(ctx)).To(Equal(r.bucket.UID))
		Expect(r.bucket.Status.Provisioning).To(Equal(v1beta1.BucketCreated))
		r.refusesTheThief(ctx)
		runDocumented(ctx, fresh, "operations.md", "Then request a probe, and wait until everything is Ready:", r.backup)
		r.keepsEverything(ctx)
	}, SpecTimeout(4*time.Minute))
})

// populate creates objects of all kinds and waits until they are Ready. The bucket has another tag too.
func (r *restoration) populate(ctx context.Context) {
	GinkgoHelper()
	r.tenant = newTenant(tenantName)
	Expect(r.kube.Create(ctx, r.tenant)).To(Succeed())
	Eventually(ctx, expect.Fetched(r.kube, r.tenant)).WithTimeout(expect.Long).Should(
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled))
	r.secret(ctx, namespace)
	r.bucket = r.storageBucket(namespace, "data")
	r.view = &v1beta1.MarkdownView{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "handbook"},
		Spec: v1beta1.MarkdownViewSpec{
			Replicas: 1, Markdowns: map[string]v1beta1.MarkdownText{"SUMMARY.md": "# Handbook\n"},
		}}
	for _, o := range []client.Object{r.bucket, r.view} {
		Expect(r.kube.Create(ctx, o)).To(Succeed())
	}
	Eventually(ctx, expect.Fetched(r.kube, r.bucket)).WithTimeout(expect.Long).Should(
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded))
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "markdowns-" + r.view.Name}}
	Eventually(ctx, expect.Fetched(r.kube, child)).WithTimeout(expect.Medium).Should(HaveField("Labels", Not(BeEmpty())))
	r.child = &corev1.ConfigMap{Data: child.Data, BinaryData: child.BinaryData,
		ObjectMeta: metav1.ObjectMeta{Namespace: child.Namespace, Name: child.Name, Labels: child.Labels}}
	r.former = r.bucket.UID
	set, err := tags.NewTags(map[string]string{v1beta1.BucketTagOwner: string(r.former), "cost-centre": "42"}, false)
	Expect(err).NotTo(HaveOccurred())
	Expect(r.storage.Client().SetBucketTagging(ctx, bucketName, set)).To(Succeed())
	Expect(r.owner(ctx)).To(Equal(r.former))
	_, err = r.storage.Client().PutObject(ctx, bucketName, "precious", strings.NewReader("data"), 4,
		minio.PutObjectOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// secret creates the Secret, as a tool that restores the contents of namespaces does.
func (r *restoration) secret(ctx context.Context, in string) {
	GinkgoHelper()
	account := r.storage.Account()
	Expect(r.kube.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "keys"},
		StringData: map[string]string{
			v1beta1.SecretKeyAccessKeyID: account.AccessKey, v1beta1.SecretKeySecretAccessKey: account.SecretKey,
		}})).To(Succeed())
}

// storageBucket manages the only bucket, with an administrator's keys, and removes it when it is deleted.
func (r *restoration) storageBucket(in, name string) *v1beta1.StorageBucket {
	return &v1beta1.StorageBucket{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
		Spec: v1beta1.StorageBucketSpec{
			BucketName: bucketName, Endpoint: r.storage.Endpoint(), CredentialsSecretRef: v1beta1.SecretReference{Name: "keys"},
			ManagementPolicy: v1beta1.BucketManage, DeletionPolicy: v1beta1.BucketDelete,
			Probe: v1beta1.ProbeSpec{PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 1},
		}}
}

// owner returns the UID in the bucket's ownership tag.
func (r *restoration) owner(ctx context.Context) types.UID {
	GinkgoHelper()
	set, err := r.storage.Client().GetBucketTagging(ctx, bucketName)
	Expect(err).NotTo(HaveOccurred())
	Expect(set.ToMap()).To(HaveKeyWithValue("cost-centre", "42"), "other tags stay")
	return types.UID(set.ToMap()[v1beta1.BucketTagOwner])
}

// refusesToTakeOver: restored objects have new UIDs, and each message names the remedy.
func (r *restoration) refusesToTakeOver(ctx context.Context) {
	GinkgoHelper()
	listed, err := os.ReadFile(r.backup + "/buckets.txt")
	Expect(err).NotTo(HaveOccurred())
	Expect(string(listed)).To(Equal(namespace + " data " + string(r.former) + "\n"))
	Eventually(ctx, expect.Fetched(r.kube, r.tenant)).WithTimeout(expect.Medium).Should(And(
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNamespaceConflict),
		HaveField("Status.Conditions",
			ContainElement(HaveField("Message", ContainSubstring("kubectl annotate namespace "+namespace))))))
	Eventually(ctx, expect.Fetched(r.kube, r.bucket)).WithTimeout(expect.Medium).Should(
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonBucketConflict))
	Expect(r.bucket.Status.Conditions).To(ContainElement(HaveField("Message",
		HaveSuffix("set this tag on the bucket with any S3 client: %s=%s", v1beta1.BucketTagOwner, r.bucket.UID))))
	Expect(r.bucket.UID).NotTo(Equal(r.former))
	Expect(r.bucket.Status.Provisioning).To(BeEmpty(), "its deletion would not remove the bucket")
	Expect(r.owner(ctx)).To(Equal(r.former))
	// Viewers cannot run here. The children are created again without a handover.
	Expect(r.kube.Get(ctx, client.ObjectKeyFromObject(r.view), r.view)).To(Succeed())
	Eventually(ctx, expect.Fetched(r.kube, r.child)).WithTimeout(expect.Medium).Should(
		HaveField("OwnerReferences", ConsistOf(HaveField("UID", r.view.UID))))
}

// tag sets the tags as the documents ask, with the other tags.
func (r *restoration) tag(ctx context.Context) {
	GinkgoHelper()
	listed, err := os.ReadFile(r.backup + "/tags.txt")
	Expect(err).NotTo(HaveOccurred())
	Expect(string(listed)).To(Equal(strings.Join([]string{r.storage.Endpoint(), bucketName, string(r.former),
		string(r.bucket.UID)}, " ") + "\n"))
	set, err := r.storage.Client().GetBucketTagging(ctx, bucketName)
	Expect(err).NotTo(HaveOccurred())
	Expect(set.Set(v1beta1.BucketTagOwner, string(r.bucket.UID))).To(Succeed())
	Expect(r.storage.Client().SetBucketTagging(ctx, bucketName, set)).To(Succeed())
}

// steal creates another team's StorageBucket for the same bucket, with the same name and keys. It
// must not get the bucket.
func (r *restoration) steal(ctx context.Context) {
	GinkgoHelper()
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "thief"}}
	Expect(r.kube.Create(ctx, other)).To(Succeed())
	r.secret(ctx, other.Name)
	r.thief = r.storageBucket(other.Name, "data")
	Expect(r.kube.Create(ctx, r.thief)).To(Succeed())
	Eventually(ctx, expect.Fetched(r.kube, r.thief)).WithTimeout(expect.Medium).Should(
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonBucketConflict))
}

// refusesTheThief: the other StorageBucket got no bucket, and its deletion removes none.
func (r *restoration) refusesTheThief(ctx context.Context) {
	GinkgoHelper()
	Expect(expect.Fetched(r.kube, r.thief)(ctx)).To(
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonBucketConflict))
	Expect(r.kube.Delete(ctx, r.thief)).To(Succeed())
	Eventually(ctx, expect.Reading(r.kube, r.thief)).WithTimeout(expect.Medium).Should(expect.BeGone())
}

// keepsEverything: the new owners have the same objects.
func (r *restoration) keepsEverything(ctx context.Context) {
	GinkgoHelper()
	Expect(r.storage.Objects(bucketName)).To(ConsistOf("precious"))
	Expect(r.owner(ctx)).To(Equal(r.bucket.UID))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	Expect(expect.Fetched(r.kube, ns)(ctx)).To(And(HaveField("DeletionTimestamp", BeNil()),
		HaveField("Annotations", HaveKeyWithValue(v1beta1.AnnotationTenantUID, string(r.tenant.UID)))))
}
