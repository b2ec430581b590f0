// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

var _ = Describe("The quota of config/samples", func() {
	BeforeEach(suite.NeedsControllers)

	It("bounds the objects of one namespace", func(ctx SpecContext) {
		text, err := os.ReadFile("../../../config/quota/quota.yaml")
		Expect(err).NotTo(HaveOccurred())
		var quota corev1.ResourceQuota
		Expect(yaml.UnmarshalStrict(text, &quota)).To(Succeed())
		most := int(quota.Spec.Hard.Name("count/markdownviews.leasehold.dev", resource.DecimalSI).Value())
		Expect(most).To(BeNumerically(">", 0))
		buckets := int(quota.Spec.Hard.Name("count/storagebuckets.leasehold.dev", resource.DecimalSI).Value())
		Expect(buckets).To(BeNumerically(">", 0))

		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operator.Unique("quota")}}
		Expect(k8s.Create(ctx, namespace)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, namespace)).To(Succeed()) })
		quota.Namespace = namespace.Name
		Expect(k8s.Create(ctx, &quota)).To(Succeed())
		By("waiting for the quota controller to count the kinds")
		Eventually(ctx, expect.Fetched(k8s, &quota)).WithTimeout(expect.Long).Should(
			HaveField("Status.Used", And(
				HaveKey(corev1.ResourceName("count/markdownviews.leasehold.dev")),
				HaveKey(corev1.ResourceName("count/storagebuckets.leasehold.dev")))))

		makeViews := func() error {
			v := view(operator.Unique("quota"), 1)
			v.Namespace, v.Spec.Markdowns = namespace.Name, map[string]v1beta1.MarkdownText{"SUMMARY.md": "x"}
			return k8s.Create(ctx, v)
		}
		makeBucket := func() error {
			return k8s.Create(ctx, &v1beta1.StorageBucket{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: operator.Unique("quota")},
				Spec: v1beta1.StorageBucketSpec{BucketName: "quota-bucket", Endpoint: "https://s3.example.com",
					CredentialsSecretRef: v1beta1.SecretReference{Name: "s3-keys"}},
			})
		}
		for range most {
			Expect(makeViews()).To(Succeed())
		}
		Expect(makeViews()).To(MatchError(ContainSubstring("exceeded quota: leasehold")), "one more than the quota")
		for range buckets {
			Expect(makeBucket()).To(Succeed())
		}
		Expect(makeBucket()).To(MatchError(ContainSubstring("exceeded quota: leasehold")), "one more than the quota")
		By("leaving quota for the children of each view")
		Eventually(func(g Gomega) {
			var views v1beta1.MarkdownViewList
			g.Expect(k8s.List(ctx, &views, client.InNamespace(namespace.Name))).To(Succeed())
			for i := range views.Items {
				g.Expect(&views.Items[i]).To(expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionFalse))
			}
		}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	})
})
