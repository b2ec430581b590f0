package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestLeaseCut_AffectsOnlyTheLease(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "lease-partition")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.isCutFrom(t, leasePath), testTimeout).Should(BeTrue())
	g.Expect(s.isUnreachable(t, 0, "/things/thing-1")).To(BeFalse(), "the rest is there")
	g.Expect(s.isUnreachable(t, 1, leasePath)).To(BeFalse())
	s.setHolder(t)
	g.Expect(healAndGetFault(t, a).Detail).
		To(Equal("cut off from the Lease at PATCH /things/thing-1, until replica two led"))
	g.Expect(s.isUnreachable(t, 0, leasePath)).To(BeFalse(), "it is over")
}

func TestLeaseCut_IsVoidWithoutRenewals(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "lease-partition")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
	s.setHolder(t)
	g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
	g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("replica two led, though one had not tried to renew"))
}

func TestLeaseCut_RestSparesTheLease(t *testing.T) {
	for name, asks := range map[string]bool{"Happened": true, "NobodyAsked": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			c := s.useFakeClock()
			a := s.injectKind(t, "lease-only")
			s.patchInBackground(t)
			g.Eventually(c.HasWaiters, testTimeout).Should(BeTrue())
			g.Expect(s.isUnreachable(t, 0, leasePath)).To(BeFalse())
			if asks {
				g.Expect(s.isUnreachable(t, 0, "/things/thing-1")).To(BeTrue())
			}
			g.Expect(s.isUnreachable(t, 1, "/things/thing-1")).To(BeFalse())
			advance(t, c, 2*time.Second)
			if !asks {
				g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
				g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("asked for nothing in 1s"))
				return
			}
			f := healAndGetFault(t, a)
			g.Expect(f.Detail).To(Equal("cut off at PATCH /things/thing-1 from all but the Lease, 1 requests"))
			g.Expect(f.Ended.Sub(f.Began)).To(Equal(2*time.Second), "longer than the Lease lasts")
			g.Expect(s.isUnreachable(t, 0, "/things/thing-1")).To(BeFalse())
		})
	}
}
