package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// requestCount are the processes of a replica that got SIGTERM.
func requestCount(s *testbed, worker int) int {
	n := 0
	for _, life := range s.replicas[worker].lifetimes() {
		if !life.Asked.IsZero() && !life.Ended.IsZero() && !life.Killed {
			n++
		}
	}
	return n
}

func TestTermination(t *testing.T) {
	for kind, tc := range map[string]struct {
		worker int
		detail string
	}{
		"stop-leader":  {0, "asked to stop at PATCH /things/thing-1"},
		"stop-standby": {1, "asked to stop, without leading, at PATCH /things/thing-1"},
	} {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			a := s.injectKind(t, kind)
			g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
			f := healAndGetFault(t, a)
			g.Expect(f.Replica).To(Equal([]string{"one", "two"}[tc.worker]))
			g.Expect(f.Detail).To(Equal(tc.detail))
			g.Expect(s.processes[tc.worker].recordedActions()).To(Equal([]string{"asked by terminated"}))
			g.Expect(s.processes[1-tc.worker].recordedActions()).To(BeEmpty())
			g.Expect(requestCount(s, tc.worker)).To(Equal(1))
			g.Eventually(func() int { starts, _ := s.processes[tc.worker].counts(); return starts }, testTimeout).
				Should(Equal(2), "as a kubelet does")
		})
	}
}

func TestTermination_AtStart(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "stop-at-start")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(func() int { starts, _ := s.processes[1].counts(); return starts }, testTimeout).Should(Equal(2))
	g.Expect(s.processes[1].recordedActions()).To(BeEmpty(), "it has asked for nothing yet")
	s.request(t, 1, http.MethodGet, "/api", "")
	f := healAndGetFault(t, a)
	g.Expect(f.Replica).To(Equal("two"))
	g.Expect(f.Detail).To(Equal("asked to stop at its first request, GET /api"))
	g.Expect(s.processes[1].recordedActions()).To(Equal([]string{"asked by terminated"}))
	g.Expect(s.processes[0].recordedActions()).To(BeEmpty())
}

func TestTermination_AtStartIsVoidWithoutRequests(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "stop-at-start")
	s.timeouts.failover = 200 * time.Millisecond
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive())
	g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
	g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("sent no request within 200ms"))
}

func TestTermination_WhileWaiting(t *testing.T) {
	for name, answered := range map[string]bool{"Happened": true, "NotAnswered": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			c := s.useFakeClock()
			a := s.injectKind(t, "slow-stop")
			answer := s.patchInBackground(t)
			g.Eventually(c.HasWaiters, testTimeout).Should(BeTrue())
			g.Expect(s.processes[0].recordedActions()).To(Equal([]string{"asked by terminated"}))
			g.Expect(answer).NotTo(Receive())
			g.Expect(s.requests).To(HaveLen(1), "the second has not arrived")
			if !answered {
				s.upstream.Close()
			}
			advance(t, c, slowness)
			if !answered {
				g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
				g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("was not answered"))
				return
			}
			g.Eventually(answer, testTimeout).Should(Receive(Equal(http.StatusOK)))
			g.Expect(healAndGetFault(t, a).Detail).To(ContainSubstring("which took 5s and was answered 200"))
		})
	}
}

func TestTermination_KillsAfterTheGracePeriod(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.subject.Contract.Limits.Grace.Duration = 100 * time.Millisecond
	s.processes[0].ignoresSignals = true
	a := s.injectKind(t, "stop-leader")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive())
	healAndGetFault(t, a)
	life := s.replicas[0].lifetimes()[0]
	g.Expect(life.Killed).To(BeFalse(), "it had its chance")
	g.Expect(life.Ended.Sub(life.Asked)).To(BeNumerically(">", 100*time.Millisecond))
	_, kills := s.processes[0].counts()
	g.Expect(kills).To(BeNumerically(">=", 1))
}
