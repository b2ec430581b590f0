// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"
)

const (
	// The third crash is the second one of the same container. From then on the kubelet delays
	// restarts, at first by 10 s.
	crashLoops = 4
	// The kubelet checks its containers every second.
	crashTakeover = 3 * time.Second
	// crashBackOff is the kubelet's reason for a delayed restart.
	crashBackOff = "CrashLoopBackOff"
)

// TestCrashes uses the shipped times, so a takeover cannot be due to an expired Lease.
func TestCrashes(t *testing.T) {
	_, usual := electionArgs(t)
	testenv.Test(t,
		features.New("the Lease lasts as long as it does by default").
			Setup(step(func(ctx context.Context, g *WithT) {
				g.Expect(shared.setOperatorArgs(ctx, usual)).To(Succeed())
				g.Expect(shared.awaitOperator(ctx)).To(Succeed())
			})).
			Feature(),
		crashLoop(),
		singleReplica())
}

// crash is one crash of the leader's container and its effects.
type crash struct {
	lost      time.Time
	pod       string // of the container
	restarts  int32  // of the container, before the crash
	heldBack  bool   // the kubelet delayed the next restart
	successor string // the identity of the next leader
	acquired  time.Time
}

// gap is the time without a leader.
func (c crash) gap() time.Duration { return c.acquired.Sub(c.lost) }

// crashLoop kills the container of each leader, as soon as the other replica is ready again.
func crashLoop() features.Feature {
	f := &failing{}
	var crashes []crash
	return features.New("each leader crashes").
		Assess("a replica leads soon after each crash", step(func(ctx context.Context, g *WithT) {
			f.prepare(ctx, g)
			f.lost = time.Now()
			for range crashLoops {
				crashes = append(crashes, crashLeader(ctx, g))
				last := &crashes[len(crashes)-1]
				shared.logf("  crash %d: Pod %s; %s led after %s", len(crashes), last.pod, last.successor, last.gap())
				f.holder = last.successor
				last.heldBack = last.awaitRestart(ctx, g)
			}
			for _, c := range crashes {
				g.Expect(c.gap()).To(BeNumerically("<=", crashTakeover))
			}
		})).
		Assess("also while the kubelet delays restarts", step(func(_ context.Context, g *WithT) {
			g.Expect(slices.ContainsFunc(crashes, func(c crash) bool { return c.heldBack })).To(BeTrue())
		})).
		Assess("the Lease alternates between the replicas", step(func(ctx context.Context, g *WithT) {
			lease, err := shared.lease(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(lease.UID)).To(Equal(f.lease))
			g.Expect(*lease.Spec.LeaseTransitions).To(BeEquivalentTo(f.transitions + crashLoops))
			g.Expect(*lease.Spec.HolderIdentity).To(Equal(f.holder))
		})).
		Assess("each write came from the Pod that held it", step(func(ctx context.Context, g *WithT) {
			for _, c := range crashes {
				shared.report.add(crashTimes, "crash loop | %s | %.2f | ", defaultSettings, c.gap().Seconds())
			}
			judgeCrashes(ctx, g, f)
		})).
		Teardown(teardown(f.restore)).
		Feature()
}

// crashLeader kills the leader's container, and returns when another replica leads. A Tenant
// causes writes by each leader.
func crashLeader(ctx context.Context, g *WithT) crash {
	leader, err := shared.leader(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	before, err := shared.lease(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	c := crash{pod: leader.Name, restarts: restarts(leader), lost: time.Now()}
	g.Expect(shared.cluster.Signal(ctx, leader, operatorContainer, syscall.SIGKILL)).To(Succeed())
	g.Eventually(func(g Gomega) {
		lease, err := shared.lease(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		c.successor, c.acquired = ptr.Deref(lease.Spec.HolderIdentity, ""), lease.Spec.AcquireTime.Time
		g.Expect(c.successor).NotTo(BeElementOf("", *before.Spec.HolderIdentity))
	}).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
	tenant := newTenant(fmt.Sprintf("e2e-crash-%d", c.lost.UnixMilli()), "a")
	await(ctx, g, func() error { return shared.client.Create(ctx, tenant) }, Succeed())
	await(ctx, g, tenantReady(tenant), Succeed())
	remove(ctx, g, tenant)
	return c
}

// awaitRestart waits until the container is ready again, and returns whether the kubelet delayed
// the restart.
func (c crash) awaitRestart(ctx context.Context, g *WithT) (heldBack bool) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: c.pod}}
	await(ctx, g, func(g Gomega) {
		g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		status := pod.Status.ContainerStatuses[0]
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason == crashBackOff {
			heldBack = true
		}
		g.Expect(status.RestartCount).To(BeNumerically(">", c.restarts))
		g.Expect(podReady(pod)).To(BeTrue())
	}, Succeed())
	return heldBack
}

// judgeCrashes checks the authors of writes and the holders of the Lease in the audit log.
func judgeCrashes(ctx context.Context, g *WithT, f *failing) {
	_, leadership := f.leadership(ctx, g)
	g.Expect(leadership.Strays).To(BeEmpty())
	g.Expect(leadership.Undecided).To(BeEmpty())
	g.Expect(leadership.Judged).To(BeNumerically(">", 0))
	for _, term := range leadership.Terms {
		if term.At.After(f.lost) {
			g.Expect(term.Holder).NotTo(BeEmpty(), "no replica released the Lease at %s", term.At)
		}
	}
}
