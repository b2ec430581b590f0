// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/integration/internal/operator"
)

var _ = Describe("A StorageBucket", func() {
	It("is probed at once on request, and not while it is paused, however long the period", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), bucketOnServer(ctx)
		b := given(ctx, build(place(ctx), proxy.URL(), name, probing(3600, 5, 1)))
		eventuallyReady(ctx, b)
		request(ctx, b, "first")
		Eventually(ctx, expect.Fetched(k8s, b)).Should(HaveField("Status.LastHandledReconcileAt", "first"))
		Expect(probes(proxy, name)).To(HaveLen(2))

		By("pausing it")
		annotate(ctx, b, v1beta1.AnnotationPaused, "true")
		paused := expect.HaveCondition(v1beta1.ConditionPaused, metav1.ConditionTrue, v1beta1.ReasonPaused)
		Eventually(ctx, expect.Fetched(k8s, b)).Should(paused)
		request(ctx, b, "second")
		other := given(ctx, build(b.Namespace, proxy.URL(), name)) // the operator goes on
		eventuallyReady(ctx, other)
		Expect(expect.Fetched(k8s, b)(ctx)).To(And(paused, HaveField("Status.LastHandledReconcileAt", "first"),
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded)))

		By("resuming it")
		annotate(ctx, b, v1beta1.AnnotationPaused, "")
		Eventually(ctx, expect.Fetched(k8s, b)).Should(And(Not(paused),
			HaveField("Status.LastHandledReconcileAt", "second")))
	}, SpecTimeout(time.Minute))

	It("keeps its bucket and its finalizer while it is paused and deleted", func(ctx SpecContext) {
		b := given(ctx, build(place(ctx), storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		annotate(ctx, b, v1beta1.AnnotationPaused, "true")
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, expect.Fetched(k8s, b)).Should(
			expect.HaveCondition(v1beta1.ConditionPaused, metav1.ConditionTrue, v1beta1.ReasonPaused))
		Expect(exists(ctx, b.Spec.BucketName)).To(BeTrue())
		annotate(ctx, b, v1beta1.AnnotationPaused, "")
		Eventually(ctx, expect.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone())
		Expect(exists(ctx, b.Spec.BucketName)).To(BeFalse())
	}, SpecTimeout(time.Minute))

	It("is not Ready while the operator may not read its Secret, also a new one", Serial, func(ctx SpecContext) {
		namespace, name := place(ctx), bucketOnServer(ctx)
		b := given(ctx, build(namespace, storage.Endpoint(), name))
		eventuallyReady(ctx, b)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "leasehold-manager-role"}}
		Expect(expect.Fetched(k8s, role)(ctx)).Error().NotTo(HaveOccurred())
		rules := role.Rules
		DeferCleanup(func(ctx context.Context) {
			operator.Change(ctx, k8s, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
		})
		operator.Change(ctx, k8s, role, func(r *rbacv1.ClusterRole) {
			for i, rule := range r.Rules {
				r.Rules[i].Resources = slices.DeleteFunc(slices.Clone(rule.Resources),
					func(s string) bool { return s == "secrets" })
			}
		})
		unknown := expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionUnknown, v1beta1.ReasonRBACForbidden)
		Eventually(ctx, expect.Fetched(k8s, b)).WithTimeout(20*time.Second).Should(unknown, "two periods")
		fresh := given(ctx, build(namespace, storage.Endpoint(), name))
		Eventually(ctx, expect.Fetched(k8s, fresh)).Should(unknown)
		Eventually(ctx, reasonsOf(fresh)).Should(Equal([]string{"Warning BucketUnhealthy"}))

		operator.Change(ctx, k8s, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
		for _, each := range []*v1beta1.StorageBucket{b, fresh} {
			Eventually(ctx, expect.Fetched(k8s, each)).WithTimeout(expect.Long).Should(
				expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded))
		}
	}, SpecTimeout(3*time.Minute))
})
