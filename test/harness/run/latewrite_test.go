package run

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestLateWrite_ArrivesAfterFailover(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "late-write")
	answer := s.patchInBackground(t)
	g.Eventually(s.isCutFrom(t, leasePath), testTimeout).Should(BeTrue(), "it cannot renew")
	g.Expect(s.isUnreachable(t, 1, leasePath)).To(BeFalse(), "the other one can")
	g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(http.StatusOK))
	g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(http.StatusOK), "what the next leader writes is not held")
	g.Expect(answer).NotTo(Receive())
	s.setHolder(t)
	g.Eventually(answer, testTimeout).Should(Receive(Equal(http.StatusOK)))
	f := healAndGetFault(t, a)
	g.Expect(f.Replica).To(Equal("one"))
	g.Expect(f.Detail).To(HavePrefix("PATCH /things/thing-1, held for "))
	g.Expect(f.Detail).To(HaveSuffix("reached the API server when replica two led, and was answered 200 OK"))
	g.Expect(s.isUnreachable(t, 0, leasePath)).To(BeFalse(), "it is over")
}

func TestLateWrite_OutlivesItsSender(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "late-write")
	g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(http.StatusOK), "the first")
	ctx, dies := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, s.replicas[0].proxy.URL()+"/things/thing-1", nil)
	g.Expect(err).NotTo(HaveOccurred())
	gone := make(chan error, 1)
	go func() {
		response, err := http.DefaultTransport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		gone <- err
	}()
	g.Eventually(s.isCutFrom(t, leasePath), testTimeout).Should(BeTrue())
	dies()
	g.Eventually(gone, testTimeout).Should(Receive(HaveOccurred()))
	s.setHolder(t)
	g.Expect(healAndGetFault(t, a).Detail).To(ContainSubstring("answered 200"))
}

func TestLateWrite_IsVoidWithoutFailover(t *testing.T) {
	for _, kind := range []string{"late-write", "leader-pause", "leader-partition", "false-evidence-terminated"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := newElection(t)
			a := s.injectKind(t, kind)
			s.timeouts.failover = 200 * time.Millisecond
			answer := s.patchInBackground(t)
			g.Eventually(answer, testTimeout).Should(Receive(), "it is let go")
			g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
			g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("no other replica than one came to lead within 200ms"))
			g.Expect(s.isUnreachable(t, 0, leasePath)).To(BeFalse())
		})
	}
}

func TestLateWrite_IsVoidIfTheRunEnds(t *testing.T) {
	for _, kind := range []string{"late-write", "leader-pause", "leader-partition", "full-partition", "partitioned-start", "slow-stop",
		"false-evidence-terminated", "false-evidence-deleted"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := newElection(t)
			s.useFakeClock()
			a := s.injectKind(t, kind)
			answer := s.patchInBackground(t)
			g.Eventually(func() int { a.mu.Lock(); defer a.mu.Unlock(); return a.ongoing }, testTimeout).Should(Equal(1))
			g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("the run ended before it was over"))
			g.Eventually(answer, testTimeout).Should(Receive())
			if kind == "leader-pause" {
				g.Expect(s.processes[0].recordedActions()).To(Equal([]string{"paused", "resumed"}), "no process stays paused")
			}
		})
	}
}
