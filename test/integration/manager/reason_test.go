package manager_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
)

// These specs lose the leader, so they have an installation of their own. Its Lease lasts 10 s.
var _ = Describe("A replica that takes over", Ordered, func() {
	var f *fenced

	BeforeAll(func(ctx SpecContext) {
		if shared.AuditLog == "" {
			Skip("not on an existing cluster: the installation would replace the one that is there")
		}
		f = newFenced(ctx)
	}, NodeTimeout(buildTimeout))

	It("logs and reports in an event that there was no Lease", func(ctx SpecContext) {
		leader, _ := f.roles(ctx)
		f.expectReason(ctx, leader, "^there was no Lease$")
	}, SpecTimeout(expect.Long))

	It("logs and reports in an event that the Lease was released", func(ctx SpecContext) {
		leader, standby := f.roles(ctx)
		code, err := leader.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeZero())
		f.expectReason(ctx, standby, "^released$")
		Expect(leader.Restart()).To(Succeed())
	}, SpecTimeout(expect.Long))

	It("logs and reports in an event which evidence showed that the leader has ended", func(ctx SpecContext) {
		leader, standby := f.roles(ctx)
		// The times in a Pod's status have whole seconds.
		Eventually(func() time.Duration {
			return time.Since(f.lease(ctx, "manager.leasehold.dev").Spec.AcquireTime.Time)
		}).WithContext(ctx).Should(BeNumerically(">", time.Second))
		leader.Kill()
		f.expectReason(ctx, standby, "^evidence: container manager of Pod "+leader.Name()+
			" terminated at .* with exit code 137$")
		Expect(leader.Restart()).To(Succeed())
	}, SpecTimeout(expect.Long))

	It("logs and reports in an event that the Lease expired, and the old leader logs why it exits", func(ctx SpecContext) {
		leader, standby := f.roles(ctx)
		Expect(leader.Pause(ctx)).To(Succeed())
		DeferCleanup(leader.Kill)
		f.expectReason(ctx, standby, "^expired$")
		Expect(leader.Resume()).To(Succeed())
		code, err := leader.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(1))
		// Three parts of the process race to notice: the timer of the term, a read of the Lease,
		// and the elector with its renew deadline.
		Expect(leader.LogTail(5)).To(Or(
			MatchRegexp("leader election lost: (the term ended without a renewal|.* holds the Lease)"),
			MatchRegexp(`(?s)"Failed to renew lease".*"running the manager: leader election lost"`)))
	}, SpecTimeout(expect.Long))
})

// expectReason waits until the replica leads, and expects its last takeover in the log and in an
// event with a reason that matches.
func (f *fenced) expectReason(ctx context.Context, r *env.Replica, reason string) {
	GinkgoHelper()
	var identity string
	Eventually(func() string {
		identity = ptr.Deref(f.lease(ctx, "manager.leasehold.dev").Spec.HolderIdentity, "")
		return identity
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(HavePrefix(r.Name() + "_"))
	Eventually(func(g Gomega) {
		g.Expect(takeoversIn(logOf(r))).To(ContainElement(And(
			HaveField("Replica", identity), HaveField("Reason", MatchRegexp(reason)),
			HaveField("Lock", "leasehold-system/manager.leasehold.dev"))))
		var events eventsv1.EventList
		g.Expect(f.client.List(ctx, &events, client.InNamespace(operatorNamespace))).To(Succeed())
		g.Expect(events).To(expect.ContainEvent(expect.Event{
			Type: corev1.EventTypeNormal, Reason: "LeaderElection",
			Note: "^" + identity + " became leader: " + strings.TrimPrefix(reason, "^"),
		}))
	}).WithContext(ctx).Should(Succeed())
}

// takeoverLine is what a replica logs when it has taken the Lease.
type takeoverLine struct{ Msg, Replica, Lock, Reason string }

func takeoversIn(log string) []takeoverLine {
	var found []takeoverLine
	for text := range strings.Lines(log) {
		var line takeoverLine
		// Some lines are of libraries, and no JSON.
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "took the Lease" {
			found = append(found, line)
		}
	}
	return found
}

// holders follows the Lease and keeps every holder it has had, in order.
type holders struct {
	mu   sync.Mutex
	seen []string
}

func followLease(ctx context.Context, namespace string) *holders {
	GinkgoHelper()
	watching, err := client.NewWithWatch(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	leases, err := watching.Watch(ctx, &coordinationv1.LeaseList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(leases.Stop)
	h := &holders{}
	go func() {
		for e := range leases.ResultChan() {
			if lease, ok := e.Object.(*coordinationv1.Lease); ok {
				h.take(lease)
			}
		}
	}()
	return h
}

func (h *holders) take(lease *coordinationv1.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if len(h.seen) == 0 || h.seen[len(h.seen)-1] != holder {
		h.seen = append(h.seen, holder)
	}
}

func (h *holders) history() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}
