package markdownview_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/expect"
)

var _ = Describe("Without webhooks that answer", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	BeforeEach(suite.NeedsControllers)

	It("a view is deleted in each way, and no live one is changed unchecked", func(ctx SpecContext) {
		policies := []metav1.DeletionPropagation{
			metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
		kept := givenReady(ctx, build(unique("kept")))
		for _, policy := range policies {
			v := givenReady(ctx, build(unique("gone")))
			for _, child := range childrenOf(v) {
				DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, child))).To(Succeed()) })
			}
			DeferCleanup(suite.StartReplicas)
			suite.StopReplicas(ctx)
			By("deleting it, " + string(policy))
			Expect(k8s.Delete(ctx, v, client.PropagationPolicy(policy))).To(Succeed())
			Eventually(ctx, reading(v)).WithTimeout(expect.Long).Should(expect.BeGone(), "%s", policy)
			By("still judging one that lives")
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())
			kept.Labels = map[string]string{"example.com/a": string(policy)}
			Expect(k8s.Update(ctx, kept)).To(MatchError(ContainSubstring("failed calling webhook")))
			suite.StartReplicas(ctx)
		}
	})
})
