// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/leasehold"
)

// These specs lose the leader and point the fence to other Leases, so they have their own control
// plane. test/manifests evaluates the fence for each holder and caller.
var _ = Describe("The fence", Ordered, func() {
	var f *fenced

	BeforeAll(func(ctx SpecContext) {
		f = newFenced(ctx)
	}, NodeTimeout(buildTimeout))

	It("opens for a replica that logs and reports in an event why it leads", func(ctx SpecContext) {
		leader, standby := f.roles(ctx)
		f.expectReason(ctx, leader, "^there was no Lease$")
		code, err := leader.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeZero())
		f.expectReason(ctx, standby, "^released$")
		Expect(leader.Restart()).To(Succeed())

		leader, standby = f.roles(ctx)
		// The times in a Pod's status have whole seconds.
		Eventually(func() time.Duration {
			return time.Since(f.lease(ctx).Spec.AcquireTime.Time)
		}).WithContext(ctx).Should(BeNumerically(">", time.Second))
		leader.Kill()
		f.expectReason(ctx, standby, "^evidence: container manager of Pod "+leader.Name()+
			" terminated at .* with exit code 137$")
		Expect(leader.Restart()).To(Succeed())
	}, SpecTimeout(expect.Long))

	It("has no warnings of the API server's type checker", func(ctx SpecContext) {
		if !f.plane.HasControllerManager() {
			Skip("needs kube-controller-manager, which KUBEBUILDER_ASSETS does not have: it checks the types of policies")
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		Eventually(func(g Gomega) {
			g.Expect(f.client.Get(ctx, client.ObjectKey{Name: "leasehold-fence.leasehold.dev"}, policy)).To(Succeed())
			g.Expect(policy.Status.ObservedGeneration).To(Equal(policy.Generation))
			g.Expect(policy.Status.TypeChecking).NotTo(BeNil())
		}).WithContext(ctx).Should(Succeed())
		Expect(policy.Status.TypeChecking.ExpressionWarnings).To(BeEmpty())
	}, SpecTimeout(expect.Long))

	It("lets the Pod that holds the Lease write, and no other Pod of the manager", func(ctx SpecContext) {
		leader, standby := f.roles(ctx)
		for what, write := range f.writes(ctx) {
			Expect(write(f.as(leader))).To(Succeed(), what)
			err := write(f.as(standby))
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
			Expect(err).To(MatchError(And(
				ContainSubstring("ValidatingAdmissionPolicy 'leasehold-fence.leasehold.dev'"),
				MatchRegexp("Pod %s does not hold the Lease leasehold-system/manager.leasehold.dev, %s_.* does", standby.Name(),
					leader.Name()))), what)
		}
	}, SpecTimeout(expect.Long))

	It("allows a standby the writes that a standby needs", func(ctx SpecContext) {
		_, standby := f.roles(ctx)
		c := f.as(standby)
		Eventually(func() error { // the leader renews it at the same time
			return c.Update(ctx, f.lease(ctx), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
		event := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-the-standby"}, Type: corev1.EventTypeNormal,
			EventTime: metav1.NowMicro(), Reason: "Test", Action: "Test", ReportingController: "test", ReportingInstance: "test",
		}
		Expect(c.Create(ctx, event, client.DryRunAll)).To(Succeed())
		Expect(c.Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: "unknown"}})).To(Succeed())
	}, SpecTimeout(expect.Long))

	It("for another operator lets the holder of its Lease write, and a standby only what it needs", func(ctx SpecContext) {
		f.otherOperator(ctx)
	}, SpecTimeout(expect.Long))

	It("lets other clients write", func(ctx SpecContext) {
		stranger := f.stranger(ctx)
		for what, write := range f.writes(ctx) {
			Expect(write(f.client)).To(Succeed(), what+", by an administrator")
			Expect(write(stranger)).To(Succeed(), what+", by another ServiceAccount")
		}
	}, SpecTimeout(expect.Long))

	It("lets every replica write without a Lease", func(ctx SpecContext) {
		leader, standby := f.roles(ctx)
		Expect(f.tries(standby)(ctx)).NotTo(Succeed(), "it is there")
		f.aim(ctx, "missing")
		Eventually(f.tries(standby)).WithContext(ctx).Should(Succeed())
		for what, write := range f.writes(ctx) {
			Expect(write(f.client)).To(Succeed(), what+", by an administrator")
			Expect(write(f.as(leader))).To(Succeed(), what)
		}
		Expect(f.client.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "missing"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(leader.Name() + "_x")},
		})).To(Succeed())
		Eventually(f.tries(standby)).WithContext(ctx).Should(MatchError(ContainSubstring("does not hold the Lease")),
			"it is closed as soon as there is one")
		f.aim(ctx, leasehold.Lease)
	}, SpecTimeout(expect.Long))

	It("is tried by a replica that does not lead, which reports a fence that denies nothing", func(ctx SpecContext) {
		_, standby := f.roles(ctx)
		effective := func() int { return strings.Count(logOf(standby), "the fence is effective") }
		Eventually(effective).WithContext(ctx).WithTimeout(expect.Medium).Should(BeNumerically(">", 0))

		f.aim(ctx, "of-another-namespace")
		Eventually(f.tries(standby)).WithContext(ctx).Should(Succeed())
		_, err := standby.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		before := effective()
		Expect(standby.Restart()).To(Succeed())
		Eventually(func(g Gomega) {
			var events eventsv1.EventList
			g.Expect(f.client.List(ctx, &events, client.InNamespace(operatorNamespace))).To(Succeed())
			g.Expect(events.Items).To(expect.ContainEvent(expect.Event{Type: corev1.EventTypeWarning, Reason: "FenceIneffective",
				Note: "accepts writes of Pod " + standby.Name() +
					", although the Pod does not hold the Lease leasehold-system/manager.leasehold.dev"}))
		}).WithContext(ctx).WithTimeout(expect.Long).Should(Succeed())
		Expect(effective()).To(Equal(before))

		f.aim(ctx, leasehold.Lease)
		Eventually(effective).WithContext(ctx).WithTimeout(expect.Medium).Should(BeNumerically(">", before))
	}, SpecTimeout(2*expect.Long))

	It("sees a leader exit at once that reads another holder in its Lease", func(ctx SpecContext) {
		leader, _ := f.roles(ctx)
		Eventually(func() error { // the leader renews it at the same time
			lease := f.lease(ctx)
			lease.Spec.HolderIdentity = new("other_uuid")
			return f.client.Update(ctx, lease)
		}).WithContext(ctx).Should(Succeed())
		code, err := leader.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(1))
		Expect(leader.LogTail(5)).To(ContainSubstring("leader election lost: other_uuid holds the Lease"))
		Expect(leader.Restart()).To(Succeed())
	}, SpecTimeout(expect.Long))

	It("denies the late write of a leader that was paused", func(ctx SpecContext) {
		late := f.pausedLeader(ctx, "late")
		f.expectReason(ctx, late.standby, "^expired$")
		before := late.tenant.DeepCopy()
		late.wakeUp(ctx)

		Expect(late.answer(ctx)).To(BeEquivalentTo(http.StatusForbidden))
		Expect(f.writesOf(late.leader, late.began, record.Succeeded)).To(BeEmpty(), "no other write succeeded")
		Expect(f.client.Get(ctx, client.ObjectKeyFromObject(late.namespace), late.namespace)).To(Succeed())
		Expect(late.namespace.DeletionTimestamp).To(BeNil())
		Expect(f.client.Get(ctx, client.ObjectKeyFromObject(late.tenant), late.tenant)).To(Succeed())
		Expect(late.tenant).To(HaveField("ResourceVersion", before.ResourceVersion), "nothing is written to the status")
		Expect(f.eventsOf(late.leader, late.began)).To(BeEmpty(), "and no event")
		// The term's timer, a read of the Lease, or the elector's renew deadline ends the process,
		// whichever is first.
		Expect(late.leader.LogTail(20)).To(Or(
			MatchRegexp("leader election lost: (the Lease was not renewed in time|.* holds the Lease)"),
			MatchRegexp(`(?s)"Failed to renew lease".*"running the manager: leader election lost"`)))
	}, SpecTimeout(expect.Long))
})

// paused is a leader that was stopped between the decision to delete a namespace and the request.
// Meanwhile another one took over, and the namespace was added to a Tenant.
type paused struct {
	*fenced
	leader    *env.Replica
	standby   *env.Replica // which leads now
	tenant    *v1beta1.Tenant
	namespace *corev1.Namespace
	held      *fault.HeldRequest
	began     record.Bookmark
}

func (f *fenced) pausedLeader(ctx context.Context, name string) *paused {
	GinkgoHelper()
	leader, standby := f.roles(ctx)
	t := f.tenant(ctx, name, "keep", "drop")
	f.ready(ctx, t)
	ns := &corev1.Namespace{}
	Expect(f.client.Get(ctx, client.ObjectKey{Name: name + "-drop"}, ns)).To(Succeed())

	gate := fault.NewGate(fault.BeforeForward)
	injection := f.proxy.Inject(fault.Rule{
		Match: fault.Match{Methods: []string{http.MethodDelete}, Path: "/api/v1/namespaces/" + ns.Name, To: 1}, Fault: gate})
	DeferCleanup(injection.Heal)
	f.setNamespaces(ctx, t, "keep")
	held, err := gate.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	f.setNamespaces(ctx, t, "keep", "drop")

	Expect(leader.Pause(ctx)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		leader.Kill()
		Expect(leader.Restart()).To(Succeed())
		Eventually(leader.Ready).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	})
	Eventually(f.holder).WithContext(ctx).WithTimeout(expect.Medium).Should(
		HavePrefix(standby.Name()+"_"), func() string { return "the log of the standby:\n" + standby.LogTail(10) })
	f.ready(ctx, t)
	return &paused{fenced: f, leader: leader, standby: standby, tenant: t, namespace: ns, held: held, began: f.position()}
}

// wakeUp forwards the leader's request, resumes the leader and waits for its end. The request comes
// first, because a leader that resumes after its term exits at once and its request with it.
func (p *paused) wakeUp(ctx context.Context) {
	GinkgoHelper()
	p.held.Release()
	p.answer(ctx)
	Expect(p.leader.Resume()).To(Succeed())
	code, err := p.leader.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(code).To(Equal(1), "the Lease is lost, so it ends")
}

// answer returns the status code of the late deletion.
func (p *paused) answer(ctx context.Context) (code int32) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		events, _, err := record.ReadAuditLogFrom(p.plane.AuditLog(), p.began)
		g.Expect(err).NotTo(HaveOccurred())
		late := record.Writes(events, p.leader.Identity().Username, record.Verb("delete"), record.Resource("", "namespaces"),
			record.Named(p.namespace.Name), byPod(p.leader))
		g.Expect(late).To(HaveLen(1))
		code = late[0].ResponseStatus.Code
	}).WithContext(ctx).Should(Succeed())
	return code
}
