// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/integration/internal/operator"
)

var _ = Describe("The cadence of probes", func() {
	It("is the period of each bucket, never more often, whatever changes around it", func(ctx SpecContext) {
		proxy, often, seldom := through(fault.Options{}), bucketOnServer(ctx), bucketOnServer(ctx)
		namespace := place(ctx)
		b := given(ctx, build(namespace, proxy.URL(), often))
		rare := given(ctx, build(namespace, proxy.URL(), seldom, probing(3600, 5, 1)))
		eventuallyReady(ctx, b)
		eventuallyReady(ctx, rare)
		for i := range 50 {
			for _, each := range []*v1beta1.StorageBucket{b, rare} {
				patch := fmt.Appendf(nil, `{"metadata":{"labels":{"turn":"%d"}},"status":{"consecutiveFailures":%d}}`, i, i%3)
				Expect(k8s.Patch(ctx, each, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
				Expect(k8s.Status().Patch(ctx, each, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
			}
		}
		Eventually(func() int { return len(probes(proxy, often)) }).WithTimeout(expect.Long).Should(Equal(3))
		for _, gap := range gaps(probes(proxy, often)) {
			Expect(gap).To(And(BeNumerically(">=", 10*time.Second), BeNumerically("<=", 20*time.Second)), "two periods")
		}
		Expect(probes(proxy, seldom)).To(HaveLen(1))
		By("changing the spec, which is probed at once")
		operator.Change(ctx, k8s, rare, func(b *v1beta1.StorageBucket) { b.Spec.Probe.PeriodSeconds = 7200 })
		Eventually(func() int { return len(probes(proxy, seldom)) }).Should(Equal(2))
	}, SpecTimeout(2*time.Minute))

	It("is kept by the leader alone, and goes on after it without a stampede", Serial, func(ctx SpecContext) {
		suite.NeedsProcesses()
		proxy, namespace, name := through(fault.Options{}), place(ctx), bucketOnServer(ctx)
		b := given(ctx, build(namespace, proxy.URL(), name))
		eventuallyReady(ctx, b)
		leader, well := suite.Leader(ctx),
			fmt.Sprintf(`leasehold_storagebucket_probes_total{result=%q}`, v1beta1.ReasonProbeSucceeded)
		for _, r := range suite.Replicas() {
			if r != leader {
				Eventually(r.Ready).WithContext(ctx).Should(Succeed(), "the standby is at work")
				_, found := operator.SeriesOf(ctx, r, well)
				Expect(found).To(BeFalse(), "and does not probe")
			}
		}
		_, found := operator.SeriesOf(ctx, leader, well)
		Expect(found).To(BeTrue())

		By("stopping all replicas until all probes are due")
		suite.StopReplicas(ctx)
		DeferCleanup(func(ctx context.Context) { suite.StartReplicas(ctx) })
		const many = 30
		overdue := []string{}
		for range many {
			name := bucketOnServer(ctx)
			old := given(ctx, build(namespace, proxy.URL(), name, probing(15, 5, 1)))
			old.Status = v1beta1.StorageBucketStatus{
				ObservedGeneration: old.Generation,
				LastProbeTime:      new(metav1.NewTime(time.Now().Add(-time.Hour))),
				Conditions: []metav1.Condition{{
					Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonProbeSucceeded,
					ObservedGeneration: old.Generation, LastTransitionTime: metav1.Now(),
				}},
			}
			Expect(k8s.Status().Update(ctx, old)).To(Succeed())
			overdue = append(overdue, name)
		}
		notYet := bucketOnServer(ctx)
		recent := given(ctx, build(namespace, proxy.URL(), notYet, probing(3600, 5, 1)))
		recent.Status = v1beta1.StorageBucketStatus{ObservedGeneration: recent.Generation, LastProbeTime: new(metav1.Now())}
		Expect(k8s.Status().Update(ctx, recent)).To(Succeed())
		suite.StartReplicas(ctx)

		// The first probe of each: the second ones of some come before the last first ones.
		probed := func() []fault.ProxiedRequest {
			var all []fault.ProxiedRequest
			for _, name := range overdue {
				if of := probes(proxy, name); len(of) > 0 {
					all = append(all, of[0])
				}
			}
			slices.SortFunc(all, func(a, b fault.ProxiedRequest) int { return a.Received.Compare(b.Received) })
			return all
		}
		Eventually(probed).WithTimeout(expect.Long).Should(HaveLen(many))
		times := probed()
		early := 0
		for _, r := range times {
			if r.Received.Sub(times[0].Received) < time.Second {
				early++
			}
		}
		// Each probe is due at an offset within the period that its UID determines, and a busy machine
		// delays those of some seconds to the same time.
		Expect(early).To(BeNumerically("<=", many/2), "of %d in the first second", many)
		Expect(times[many-1].Received.Sub(times[0].Received)).To(BeNumerically(">", 15*time.Second/2))
		Expect(probes(proxy, notYet)).To(BeEmpty(), "what was probed before the restart is not due after it")
	}, SpecTimeout(4*time.Minute))
})
