package markdownview_test

import (
	"fmt"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

var _ = Describe("A steady state", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	BeforeEach(settled)

	// look has the controller make n passes over the view.
	look := func(ctx SpecContext, v *v1beta1.MarkdownView, n int) {
		GinkgoHelper()
		before, configMap := reconciles(ctx), configMapOf(v)
		for i := range n {
			// A stranger's annotation is nothing to us, but it wakes the controller.
			change(ctx, configMap, func(c *corev1.ConfigMap) {
				c.Annotations = map[string]string{"example.com/touched": strconv.Itoa(i)}
			})
			Eventually(func(g Gomega) { g.Expect(reconciles(ctx)).To(BeNumerically(">", before+float64(i))) }).
				WithContext(ctx).WithTimeout(expect.Short).WithPolling(expect.Poll / 10).Should(Succeed())
		}
		Expect(reconciles(ctx)-before).To(BeNumerically(">=", n), "the controller must have been alive")
	}

	It("is left alone: 100 looks, no write and no event", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("calm"), replicas(2)))
		Eventually(ctx, eventsAbout(v)).Should(HaveLen(1))
		since := suite.AuditPosition()
		look(ctx, v, 100)
		Expect(suite.Writes(since)).To(BeEmpty())
		Expect(eventsAbout(v)(ctx)).To(HaveLen(1))
	})

	It("of a conflict is left alone too: nothing is tried again and again", func(ctx SpecContext) {
		v := build(unique("calm"))
		stranger := strangers["Service"](v)
		Expect(k8s.Create(ctx, stranger)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, stranger)).To(Succeed()) })
		given(ctx, v)
		Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(inConflict())
		rollOut(ctx, v)
		Eventually(ctx, fetched(v)).Should(expect.HaveCondition(v1beta1.ConditionAvailable, "True"))
		Eventually(ctx, eventsAbout(v)).Should(HaveLen(3)) // ChildConflict, Degraded, Available
		since := suite.AuditPosition()
		look(ctx, v, 20)
		Expect(suite.Writes(since)).To(BeEmpty())
		Expect(eventsAbout(v)(ctx)).To(HaveLen(3))
	})

	It("ends with the view: its metrics go when it goes", func(ctx SpecContext) {
		v := given(ctx, build(unique("gauge")))
		series := fmt.Sprintf(`leasehold_markdownview_available{name=%q,namespace=%q}`, v.Name, v.Namespace)
		Eventually(ctx, suite.HasMetric).WithArguments(series).Should(BeTrue())
		Expect(suite.Metric(ctx, series)).To(BeZero())
		eventuallyReady(ctx, v)
		Eventually(ctx, suite.Metric).WithArguments(series).Should(BeEquivalentTo(1))
		Expect(k8s.Delete(ctx, v)).To(Succeed())
		Eventually(ctx, suite.HasMetric).WithArguments(series).Should(BeFalse())
		alive := given(ctx, build(unique("gauge")))
		Eventually(ctx, suite.HasMetric).WithArguments(fmt.Sprintf(`leasehold_markdownview_available{name=%q,namespace=%q}`,
			alive.Name, alive.Namespace)).Should(BeTrue())
	})

	It("is looked at from time to time, though nothing changes", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("tick")))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(v), v)).To(Succeed())
		before := reconciles(ctx)
		Eventually(ctx, reconciles).WithTimeout(expect.Medium).Should(BeNumerically(">=", before+2))
		version := v.ResourceVersion
		Expect(fetched(v)(ctx)).To(HaveField("ResourceVersion", version))
	})
})
