// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
)

// The times of config/e2e, and their text in the report.
const (
	shortLease    = 6 * time.Second
	shortSettings = "6/4/1"
)

func TestFailoverPodDeleted(t *testing.T) {
	testenv.Test(t, takeover{
		mode: "Pod deleted (from the release)", settings: shortSettings, transitions: 1, released: true,
		lose: func(ctx context.Context, g *WithT, f *failing) {
			// The replacement Pod stays Pending, so it cannot take the Lease.
			f.cordonWorkers(ctx, g)
			f.lost = time.Now()
			g.Expect(shared.client.Delete(ctx, f.leader)).To(Succeed())
			// The leader drains first: the gap begins with the release of the Lease.
			f.awaitRelease(ctx, g)
		},
		// The Service removes the Pod before it stops answering, and it closes its open connections.
		refusedFor: 0,
	}.feature())
}

func TestFailoverProcessKilled(t *testing.T) {
	testenv.Test(t, takeover{
		mode: "process killed (SIGKILL)", settings: shortSettings, transitions: 1,
		lose: func(ctx context.Context, g *WithT, f *failing) {
			f.lost = time.Now()
			g.Expect(shared.cluster.Signal(ctx, f.leader, operatorContainer, syscall.SIGKILL)).To(Succeed())
			// The kubelet restarts the container at once. Without the API server it cannot take the
			// Lease.
			f.cutOff(ctx, g)
		},
		refusedFor: crashNoticed,
	}.feature())
}

func TestFailoverNodeStopped(t *testing.T) {
	testenv.Test(t, nodeStopped(shortSettings, shortLease).feature())
}

// nodeStopped freezes the leader's node.
func nodeStopped(settings string, lease time.Duration) takeover {
	return takeover{
		mode: "node stopped (docker pause)", settings: settings, transitions: 1, expires: lease,
		lose: func(ctx context.Context, g *WithT, f *failing) {
			f.lost = time.Now()
			f.undoing("resuming the node", func(ctx context.Context) error {
				return shared.cluster.ResumeNode(ctx, f.leader.Spec.NodeName)
			})
			g.Expect(shared.cluster.PauseNode(ctx, f.leader.Spec.NodeName)).To(Succeed())
		},
		refusedFor: nodeHangs,
	}
}

func TestFailoverCutOff(t *testing.T) {
	testenv.Test(t, takeover{
		mode: "API server cut off from the Pod", settings: shortSettings, transitions: 1,
		lose: func(ctx context.Context, g *WithT, f *failing) {
			f.lost = time.Now()
			f.cutOff(ctx, g)
		},
		// The leader answers until the renew deadline and exits then, because it may not lead longer.
		refusedFor: 4*time.Second + crashNoticed,
	}.feature())
}

// A forced deletion removes only the Pod's object. The process continues, because its node is cut
// off, so the deletion is no evidence.
func TestFailoverForceDeleted(t *testing.T) {
	testenv.Test(t, takeover{
		mode: "Pod force-deleted, its node cut off", settings: shortSettings, transitions: 1, expires: shortLease,
		lose: func(ctx context.Context, g *WithT, f *failing) {
			// The replacement Pod stays Pending, so it cannot take the Lease.
			f.cordonWorkers(ctx, g)
			heal, err := shared.cluster.CutOffNode(ctx, f.leader.Spec.NodeName)
			g.Expect(err).NotTo(HaveOccurred())
			f.undoing("letting the node back to the API server", heal)
			f.lost = time.Now()
			g.Expect(shared.client.Delete(ctx, f.leader, client.GracePeriodSeconds(0))).To(Succeed())
			g.Expect(gone(f.leader.DeepCopy())(ctx)).To(Succeed())
		},
		refusedFor: crashNoticed,
	}.feature())
}

func TestFailoverLeaseDeleted(t *testing.T) {
	testenv.Test(t,
		features.New("the Lease is deleted while the leader lives").
			Assess("the leader creates it again", step(func(ctx context.Context, g *WithT) {
				g.Expect(shared.settle(ctx)).To(Succeed())
				leader, err := shared.leader(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				old, err := shared.lease(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(shared.client.Delete(ctx, old)).To(Succeed())
				g.Eventually(func(g Gomega) {
					lease, err := shared.lease(ctx)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(lease.UID).NotTo(Equal(old.UID))
					g.Expect(holderOf(lease)).To(Equal(leader.Name))
				}).WithContext(ctx).WithTimeout(shortLease).WithPolling(poll).Should(Succeed())
			})).
			Feature(),
		takeover{
			mode: "Lease deleted, the leader asleep", settings: shortSettings,
			fresh: true, // the Lease was created again
			lose: func(ctx context.Context, g *WithT, f *failing) {
				// Only the standby can take the Lease: the leader is stopped, for less than the
				// kubelet allows, and another replica leads when it continues.
				f.undoing("waking the leader", func(ctx context.Context) error {
					if err := shared.cluster.Signal(ctx, f.leader, operatorContainer, syscall.SIGCONT); err != nil {
						shared.logf("  the kubelet was faster: %v", err)
					}
					f.woken = time.Now()
					return nil
				})
				g.Expect(shared.cluster.Signal(ctx, f.leader, operatorContainer, syscall.SIGSTOP)).To(Succeed())
				lease, err := shared.lease(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				f.lost = time.Now()
				g.Expect(shared.client.Delete(ctx, lease)).To(Succeed())
			},
			refusedFor: wedgeNoticed,
		}.feature())
}

func TestFailoverWedged(t *testing.T) {
	testenv.Test(t, takeover{
		mode: "process wedged (SIGSTOP)", settings: shortSettings, transitions: 1,
		lose: func(ctx context.Context, g *WithT, f *failing) {
			f.lost = time.Now()
			// The process stays stopped until the liveness probe fails.
			g.Expect(shared.cluster.Signal(ctx, f.leader, operatorContainer, syscall.SIGSTOP)).To(Succeed())
		},
		refusedFor: wedgeNoticed,
	}.feature())
}

// failing is a takeover in progress.
type failing struct {
	leader, standby *corev1.Pod
	transitions     int32 // of the Lease, before the loss
	lease           string
	lost            time.Time
	woken           time.Time // when the former leader resumed
	began           time.Time
	holder          string // the current leader
	tenant          *v1beta1.Tenant
	firstReady      time.Time
	admission       *admission
	undos           []undo
}

type undo struct {
	doing string
	do    func(context.Context) error
}

// undoing registers how to undo a fault. The teardown undoes the faults that are left.
func (f *failing) undoing(doing string, do func(context.Context) error) {
	f.undos = append(f.undos, undo{doing, do})
}

// undo heals all faults, in reverse order, also after an interrupt, because the cluster may be kept.
func (f *failing) undo(ctx context.Context, g *WithT) {
	var errs []error
	for _, u := range slices.Backward(f.undos) {
		if err := u.do(context.WithoutCancel(ctx)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", u.doing, err))
		}
	}
	f.undos = nil
	g.Expect(errors.Join(errs...)).To(Succeed())
}

func (f *failing) cutOff(ctx context.Context, g *WithT) {
	heal, err := shared.cluster.CutOff(ctx, f.leader)
	g.Expect(err).NotTo(HaveOccurred())
	f.undoing("letting the Pod back to the API server", heal)
}

func (f *failing) cordonWorkers(ctx context.Context, g *WithT) {
	for _, node := range []string{f.leader.Spec.NodeName, f.standby.Spec.NodeName} {
		f.undoing("uncordoning node "+node, func(ctx context.Context) error { return cordon(ctx, node, false) })
		g.Expect(cordon(ctx, node, true)).To(Succeed())
	}
}

// cordon makes a node unschedulable or schedulable.
func cordon(ctx context.Context, name string, on bool) error {
	node := &corev1.Node{}
	node.Name = name
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on)
	return shared.client.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch))
}

// awaitHolder waits until another Pod than the former leader holds the Lease.
func (f *failing) awaitHolder(ctx context.Context, g *WithT) {
	g.Eventually(func(g Gomega) {
		lease, err := shared.lease(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(holderOf(lease)).NotTo(BeElementOf("", f.leader.Name))
		f.holder = holderOf(lease)
	}).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
}

// awaitRelease waits until the former leader does not hold the Lease.
func (f *failing) awaitRelease(ctx context.Context, g *WithT) {
	g.Eventually(func(g Gomega) {
		lease, err := shared.lease(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(holderOf(lease)).NotTo(Equal(f.leader.Name))
	}).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
}
