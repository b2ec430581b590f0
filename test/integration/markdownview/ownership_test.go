// SPDX-License-Identifier: Apache-2.0

package markdownview_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

func inConflict() OmegaMatcher {
	return And(
		expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionTrue, v1beta1.ReasonChildConflict),
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonChildConflict),
		expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonChildConflict))
}

// The golden reconciles test this for each child. Only an API server shows that an object outside the
// cache's selector is found, and that a view recovers after its removal, which no watch event reports.
var _ = Describe("What does not belong to a MarkdownView", func() {
	It("is not changed, and the view becomes Ready after its removal", func(ctx SpecContext) {
		v := build(unique("clash"))
		stranger := configMapOf(v)
		stranger.Data = map[string]string{"SUMMARY.md": "a stranger's"}
		// Any user can set the label, so it is no evidence of ownership.
		stranger.Labels = map[string]string{v1beta1.LabelManagedBy: v1beta1.ManagedByValue}
		Expect(k8s.Create(ctx, stranger)).To(Succeed())
		version := stranger.ResourceVersion
		given(ctx, v)
		Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(inConflict())
		Eventually(ctx, eventsAbout(v)).Should(And(
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventChildConflict,
				Note: stranger.Name}),
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventDegraded,
				Note: stranger.Name})))
		Expect(fetched(serviceOf(v))(ctx)).To(expect.BeControlledBy(v))
		Expect(reading(deploymentOf(v))(ctx)).To(expect.BeGone(), "it would show foreign content")
		Expect(fetched(stranger)(ctx)).To(HaveField("ResourceVersion", version))

		By("becoming Ready without a change after the removal")
		Expect(k8s.Delete(ctx, stranger)).To(Succeed())
		eventuallyReady(ctx, v)
		for _, child := range childrenOf(v) {
			Expect(fetched(child)(ctx)).To(expect.BeControlledBy(v))
		}
		Expect(eventsAbout(v)(ctx)).NotTo(expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal,
			Reason: v1beta1.EventDriftCorrected}), "making what was missing is no correction")
	})
})

var _ = Describe("When a MarkdownView is deleted", func() {
	BeforeEach(suite.NeedsControllers)

	DescribeTable("its children are deleted too, and a new view of the name gets new children",
		func(ctx SpecContext, propagation metav1.DeletionPropagation) {
			first := givenReady(ctx, build(unique("gone")))
			Expect(first.GetFinalizers()).To(BeEmpty(), "deleting needs no controller")
			Expect(k8s.Delete(ctx, first, client.PropagationPolicy(propagation))).To(Succeed())
			Eventually(ctx, reading(first)).WithTimeout(expect.Long).Should(expect.BeGone())

			second := given(ctx, build(first.Name, replicas(2)))
			Eventually(func(g Gomega) {
				for _, child := range childrenOf(second) {
					g.Expect(fetched(child)(ctx)).To(And(expect.BeControlledBy(second), Not(expect.BeTerminating())))
				}
			}).WithContext(ctx).WithTimeout(expect.Long).Should(Succeed())
			eventuallyReady(ctx, second)
			Expect(eventsAbout(second)(ctx)).NotTo(expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventChildConflict}),
				"an object that is being deleted is no conflict")
		},
		Entry("in the background", metav1.DeletePropagationBackground),
		Entry("in the foreground", metav1.DeletePropagationForeground),
	)

	It("orphaned children stay, and a new view does not adopt them", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("orphan")))
		Expect(k8s.Delete(ctx, v, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(ctx, reading(v)).WithTimeout(expect.Long).Should(expect.BeGone())
		again := given(ctx, build(v.Name))
		Eventually(ctx, fetched(again)).WithTimeout(expect.Medium).Should(inConflict())
		for _, child := range childrenOf(v) {
			Expect(fetched(child)(ctx)).To(And(expect.HaveOwnerReferences(), Not(expect.BeTerminating())))
			Expect(k8s.Delete(ctx, child)).To(Succeed())
		}
	})
})
