package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestPartition_Leader(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "leader-partition")
	s.patchInBackground(t)
	g.Eventually(s.isCutFrom(t, "/healthz"), testTimeout).Should(BeTrue())
	g.Expect(s.isUnreachable(t, 1, "/healthz")).To(BeFalse())
	s.setHolder(t)
	f := healAndGetFault(t, a)
	g.Expect(f.Detail).To(MatchRegexp(
		"^cut off at PATCH /things/thing-1, with .* under way and .* after, until replica two led$"))
	g.Expect(s.isUnreachable(t, 0, "/healthz")).To(BeFalse())
}

func TestPartition_All(t *testing.T) {
	for name, asking := range map[string]int{"Happened": 2, "OneDidNotAsk": 1} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			c := s.useFakeClock()
			a := s.injectKind(t, "full-partition")
			s.patchInBackground(t)
			g.Eventually(c.HasWaiters, testTimeout).Should(BeTrue())
			for worker := range asking {
				g.Expect(s.isUnreachable(t, worker, leasePath)).To(BeTrue())
			}
			advance(t, c, 2*time.Second)
			g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
			if asking < 2 {
				g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("replica two asked for nothing in 1s"))
				return
			}
			g.Expect(healAndGetFault(t, a).Replica).To(BeEmpty(), "it was all")
			g.Expect(s.isUnreachable(t, 0, leasePath)).To(BeFalse())
			g.Expect(s.isUnreachable(t, 1, leasePath)).To(BeFalse())
		})
	}
}

func TestPartition_StartingReplica(t *testing.T) {
	for name, asks := range map[string]bool{"Happened": true, "ItDidNotAsk": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			c := s.useFakeClock()
			a := s.injectKind(t, "partitioned-start")
			g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
			g.Eventually(c.HasWaiters, testTimeout).Should(BeTrue())
			g.Eventually(func() int { starts, _ := s.processes[1].counts(); return starts }, testTimeout).Should(Equal(2),
				"it is not the leader")
			if asks {
				g.Expect(s.isUnreachable(t, 1, leasePath)).To(BeTrue())
			}
			g.Expect(s.isUnreachable(t, 0, leasePath)).To(BeFalse())
			advance(t, c, 2*time.Second)
			if !asks {
				g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
				g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("replica two asked for nothing in 1s"))
				return
			}
			f := healAndGetFault(t, a)
			g.Expect(f.Replica).To(Equal("two"))
			g.Expect(f.Detail).To(Equal("killed at PATCH /things/thing-1 and started again, cut off for 1 requests"))
		})
	}
}
