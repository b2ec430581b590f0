// SPDX-License-Identifier: Apache-2.0

package markdownview_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// These specs remove something that other specs need, and restore it. Serial specs run on the first
// process, which runs the operator.
var _ = Describe("When a part is missing", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	BeforeEach(suite.NeedsControllers)

	It("the webhooks: the schema and the operator reject invalid views", func(ctx SpecContext) {
		held := givenReady(ctx, build(unique("held")))
		withoutWebhooks(ctx)
		Expect(k8s.Create(ctx, typed(unique("wrong"), beside("a/b.md", "x")))).To(MatchError(ContainSubstring("is invalid")),
			"the schema's own rules need no operator")

		By("refusing a new view")
		invalid := And(
			expect.HaveObservedGeneration(),
			expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionTrue, v1beta1.ReasonInvalidSpec),
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonInvalidSpec),
			expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonInvalidSpec))
		wrong := given(ctx, build(unique("wrong"), showing(files{"a.md": "x"})))
		Eventually(ctx, fetched(wrong)).WithTimeout(expect.Medium).Should(invalid)
		for _, child := range childrenOf(wrong) {
			Expect(reading(child)(ctx)).To(expect.BeGone())
		}

		By("keeping the children of a view that has become invalid, until it is corrected")
		change(ctx, held, showing(files{"a.md": "x"}))
		Eventually(ctx, fetched(held)).WithTimeout(expect.Medium).Should(And(invalid,
			expect.HaveCondition(v1beta1.ConditionAvailable, metav1.ConditionTrue))) // the page is still served
		Expect(fetched(configMapOf(held))(ctx)).To(HaveField("Data", HaveKey("SUMMARY.md")))
		change(ctx, held, showing(files{"SUMMARY.md": "x"}))
		eventuallyReady(ctx, held)
	})

	It("the operator: no unvalidated view is stored, and views are deleted in each way", func(ctx SpecContext) {
		kept := givenReady(ctx, build(unique("kept")))
		deleted := map[metav1.DeletionPropagation]*v1beta1.MarkdownView{}
		for _, policy := range []metav1.DeletionPropagation{
			metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
			v := givenReady(ctx, build(unique("gone")))
			deleted[policy] = v
			for _, child := range childrenOf(v) {
				DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, child))).To(Succeed()) })
			}
		}
		DeferCleanup(suite.StartReplicas)
		suite.StopReplicas(ctx)
		Expect(k8s.Create(ctx, build(unique("dead")))).To(MatchError(ContainSubstring("failed calling webhook")))
		kept.Labels = map[string]string{"example.com/a": "b"}
		Expect(k8s.Update(ctx, kept)).To(MatchError(ContainSubstring("failed calling webhook")))
		for policy, v := range deleted {
			Expect(k8s.Delete(ctx, v, client.PropagationPolicy(policy))).To(Succeed())
			Eventually(ctx, reading(v)).WithTimeout(expect.Long).Should(expect.BeGone(), "%s", policy)
		}
	})
})

// withoutWebhooks removes the webhook of MarkdownViews for the rest of the spec.
func withoutWebhooks(ctx context.Context) {
	GinkgoHelper()
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "leasehold-validating-webhook-configuration"}}
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(validating), validating)).To(Succeed())
	validators := validating.Webhooks
	unchecked := func(ctx context.Context) error {
		return k8s.Create(ctx, build(unique("lax"), showing(files{"a.md": "x"})), client.DryRunAll)
	}
	DeferCleanup(func(ctx context.Context) {
		change(ctx, validating, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) { c.Webhooks = validators })
		Eventually(ctx, unchecked).WithTimeout(expect.Medium).Should(MatchError(ContainSubstring("denied the request")))
	})
	change(ctx, validating, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		c.Webhooks = slices.DeleteFunc(slices.Clone(validators), func(w admissionregistrationv1.ValidatingWebhook) bool {
			return w.Name == "vmarkdownview.leasehold.dev"
		})
		Expect(c.Webhooks).To(HaveLen(len(validators) - 1))
	})
	Eventually(ctx, unchecked).WithTimeout(expect.Medium).Should(Succeed())
}
