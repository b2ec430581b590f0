package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
)

// These specs take the fence away and put other Leases behind it, so they have a
// control plane of their own.
var _ = Describe("The fence", Ordered, func() {
	var f *fenced

	BeforeAll(func(ctx SpecContext) {
		if shared.AuditLog == "" {
			Skip("not on an existing cluster: the fence there is in use")
		}
		f = newFenced(ctx)
	}, NodeTimeout(buildTimeout))

	It("is written in terms that the API server finds no fault with", func(ctx SpecContext) {
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

	It("leaves to the standby what a standby needs", func(ctx SpecContext) {
		_, standby := f.roles(ctx)
		c := f.as(standby)
		Eventually(func() error { // the leader renews it at the same time
			lease := f.lease(ctx, "manager.leasehold.dev")
			return c.Update(ctx, lease, client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
		event := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "said-by-the-standby"}, Type: corev1.EventTypeNormal,
			EventTime: metav1.NowMicro(), Reason: "Test", Action: "Test", ReportingController: "test", ReportingInstance: "test",
		}
		Expect(c.Create(ctx, event, client.DryRunAll)).To(Succeed())
		Expect(c.Create(ctx, ofNobody())).To(Succeed())
	}, SpecTimeout(expect.Long))

	It("asks for a token that is bound to a Pod", func(ctx SpecContext) {
		for what, write := range f.writes(ctx) {
			Expect(write(f.unbound(ctx, operatorNamespace, "leasehold-controller-manager"))).To(
				MatchError(ContainSubstring("use a token that is bound to a Pod")), what)
		}
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

	It("goes by who holds the Lease, to the letter", func(ctx SpecContext) {
		leader, _ := f.roles(ctx)
		f.aim(ctx, "another")
		for _, tc := range []struct {
			holder *string
			says   string // "" where the write is let through
		}{
			{nil, "nobody does"},
			{new(leader.Name()), ", " + leader.Name() + " does"},
			{new(""), "nobody does"},
			{new(leader.Name() + "0_x"), ", " + leader.Name() + "0_x does"},
			{new("_" + leader.Name() + "_x"), ", _" + leader.Name() + "_x does"},
			{new(leader.Name() + "_x"), ""},
		} {
			f.hold(ctx, "another", tc.holder)
			want := Succeed()
			if tc.says != "" {
				want = MatchError(ContainSubstring(tc.says))
			}
			Eventually(f.tries(leader)).WithContext(ctx).Should(want)
		}
		f.aim(ctx, "manager.leasehold.dev")
		f.roles(ctx)
	}, SpecTimeout(expect.Long))

	It("lets every replica write where there is no Lease, and so no second leader", func(ctx SpecContext) {
		leader, standby := f.roles(ctx)
		Expect(f.tries(standby)(ctx)).NotTo(Succeed(), "it is there")
		f.aim(ctx, "missing")
		Eventually(f.tries(standby)).WithContext(ctx).Should(Succeed())
		for what, write := range f.writes(ctx) {
			Expect(write(f.client)).To(Succeed(), what+", by an administrator")
			Expect(write(f.as(leader))).To(Succeed(), what)
		}
		f.hold(ctx, "missing", new(leader.Name()+"_x"))
		Eventually(f.tries(standby)).WithContext(ctx).Should(MatchError(ContainSubstring("does not hold the Lease")),
			"it is closed as soon as there is one")
		f.aim(ctx, "manager.leasehold.dev")
	}, SpecTimeout(expect.Long))

	It("that is closed for a moment is not spoken of, and the work goes on after it", func(ctx SpecContext) {
		leader, _ := f.roles(ctx)
		f.hold(ctx, "of-nobody", nil)
		f.aim(ctx, "of-nobody")
		Eventually(f.tries(leader)).WithContext(ctx).Should(MatchError(ContainSubstring("nobody does")))
		began, before := f.position(), logOf(leader)
		t := f.tenant(ctx, "patient", "dev")
		Eventually(func() int { return len(f.writesOf(leader, began, record.Not(record.Succeeded))) }).
			WithContext(ctx).Should(
			BeNumerically(">", 2), "it goes on trying")
		Expect(f.client.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
		Expect(t.Status).To(Equal(v1beta1.TenantStatus{ObservedGeneration: -1}),
			"what is denied leaves the status of the creation")
		f.aim(ctx, "manager.leasehold.dev")
		f.ready(ctx, t)
		Expect(f.eventsAbout(ctx, t)).NotTo(ContainElement(HaveField("Type", corev1.EventTypeWarning)))
		Expect(strings.TrimPrefix(logOf(leader), before)).NotTo(ContainSubstring("fence.leasehold.dev"))
	}, SpecTimeout(expect.Long))

	It("denies a former leader that was paused what it was about to do", func(ctx SpecContext) {
		late := f.pausedLeader(ctx, "late")
		before := late.tenant.DeepCopy()
		late.wakeUp(ctx)

		Expect(late.answer(ctx)).To(BeEquivalentTo(http.StatusForbidden))
		Expect(f.writesOf(late.leader, late.began, record.Succeeded)).To(BeEmpty(), "nothing else came through")
		Expect(f.client.Get(ctx, client.ObjectKeyFromObject(late.namespace), late.namespace)).To(Succeed())
		Expect(late.namespace.DeletionTimestamp).To(BeNil())
		Expect(f.client.Get(ctx, client.ObjectKeyFromObject(late.tenant), late.tenant)).To(Succeed())
		Expect(late.tenant).To(HaveField("ResourceVersion", before.ResourceVersion), "nothing is said in the status")
		Expect(f.eventsOf(late.leader, late.began)).To(BeEmpty(), "nor by an event")
	}, SpecTimeout(expect.Long))

	It("is what keeps it from that: without it a namespace is lost", func(ctx SpecContext) {
		f.off(ctx)
		late := f.pausedLeader(ctx, "lost")
		late.wakeUp(ctx)
		Expect(late.answer(ctx)).To(BeEquivalentTo(http.StatusOK))
		Expect(f.client.Get(ctx, client.ObjectKeyFromObject(late.tenant), late.tenant)).To(Succeed())
		Expect(late.tenant.Spec.Namespaces).To(HaveLen(2), "its user wants the namespace")
		Eventually(func() error {
			now := &corev1.Namespace{}
			if err := f.client.Get(ctx, client.ObjectKeyFromObject(late.namespace), now); err != nil {
				return client.IgnoreNotFound(err)
			}
			if now.UID == late.namespace.UID && now.DeletionTimestamp.IsZero() {
				return fmt.Errorf("namespace %s is still there", now.Name)
			}
			return nil
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(expect.Long))

	// It would not, had its binding been deleted and made again (kubernetes#130887).
	It("that was off for a while goes by who leads now", func(ctx SpecContext) {
		_, standby := f.roles(ctx) // the leader has changed meanwhile, and may write
		Eventually(f.tries(standby)).WithContext(ctx).Should(MatchError(ContainSubstring("does not hold the Lease")))
	}, SpecTimeout(expect.Long))
})

// paused is a leader that was stopped between judging a namespace and deleting
// it, while another took the lead and the namespace came to be wanted again.
type paused struct {
	*fenced
	leader    *env.Replica
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
	f.ask(ctx, t, "keep")
	held, err := gate.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	f.ask(ctx, t, "keep", "drop")

	Expect(leader.Pause(ctx)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		leader.Kill()
		Expect(leader.Restart()).To(Succeed())
		Eventually(leader.Ready).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	})
	Eventually(f.holder).WithContext(ctx).WithTimeout(expect.Medium).Should(
		HavePrefix(standby.Name()+"_"), func() string { return "the standby said:\n" + standby.LogTail(10) })
	f.ready(ctx, t)
	return &paused{fenced: f, leader: leader, tenant: t, namespace: ns, held: held, began: f.position()}
}

// wakeUp lets the leader's request arrive and the leader go on, and waits for its end. In this
// order, because a leader that wakes after its term exits at once and takes the request along.
func (p *paused) wakeUp(ctx context.Context) {
	GinkgoHelper()
	p.held.Release()
	p.answer(ctx)
	Expect(p.leader.Resume()).To(Succeed())
	code, err := p.leader.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(code).To(Equal(1), "the Lease is lost, so it ends")
}

// answer is the code with which the API server answered the late deletion.
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
