package tenant_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

var _ = Describe("Without webhooks that answer", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	BeforeEach(suite.NeedsControllers)

	It("an administrator removes a Tenant deleted in each way, and no live one is changed unchecked",
		func(ctx SpecContext) {
			policies := []metav1.DeletionPropagation{
				metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
			kept := givenReady(ctx, build(unique("kept")))
			for _, policy := range policies {
				t := givenReady(ctx, build(unique("gone"), suffixes("dev")))
				DeferCleanup(func(ctx SpecContext) {
					ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Name + "-dev"}}
					Expect(client.IgnoreNotFound(k8s.Delete(ctx, ns))).To(Succeed())
				})
				DeferCleanup(suite.StartReplicas)
				suite.StopReplicas(ctx)
				By("deleting it, " + string(policy))
				Expect(k8s.Delete(ctx, t, client.PropagationPolicy(policy))).To(Succeed())
				By("taking the operator's finalizer off, as an administrator")
				Eventually(func(g Gomega) {
					g.Expect(client.IgnoreNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(t), t))).To(Succeed())
					var left []string
					for _, finalizer := range t.Finalizers {
						if finalizer != v1beta1.TenantFinalizer {
							left = append(left, finalizer)
						}
					}
					t.Finalizers = left
					g.Expect(client.IgnoreNotFound(k8s.Update(ctx, t))).To(Succeed())
				}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
				Eventually(ctx, reading(t)).WithTimeout(expect.Long).Should(expect.BeGone(), "%s", policy)
				By("still judging one that lives")
				Expect(k8s.Get(ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())
				kept.Labels = map[string]string{"example.com/a": string(policy)}
				Expect(k8s.Update(ctx, kept)).To(MatchError(ContainSubstring("failed calling webhook")))
				suite.StartReplicas(ctx)
			}
		})
})
