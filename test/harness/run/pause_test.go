package run

import (
	"errors"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/scenario"
)

func TestPausedLeader_ReconnectNeedsAWatchOfTheLease(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "leader-pause-reconnect")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.processes[0].recordedActions, testTimeout).Should(Equal([]string{"paused"}))
	s.setHolder(t)
	g.Eventually(s.processes[0].recordedActions, testTimeout).Should(ContainElement("resumed"))
	g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
	g.Expect(healAndGetVoidReason(t, a)).To(Equal("no replica listed the Lease again while replica one was paused"))
}

func TestPausedLeader_ResumesAfterFailover(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "leader-pause")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)), "the answer waits for it")
	g.Eventually(s.processes[0].recordedActions, testTimeout).Should(Equal([]string{"paused"}))
	s.setHolder(t)
	s.patch(t, 1, "/things/thing-1")
	f := healAndGetFault(t, a)
	g.Expect(s.processes[0].recordedActions()).To(HaveExactElements("paused", "resumed"))
	g.Expect(s.processes[1].recordedActions()).To(BeEmpty())
	g.Expect(f.Replica).To(Equal("one"))
	g.Expect(f.Detail).To(MatchRegexp(`^paused at PATCH /things/thing-1, and went on \S+ later, when replica two led$`))
}

// A replica that does not lead may write, for example without leader election. Pausing it
// takes the Lease from no leader, so the fault is void.
func TestPausedLeader_IsVoidForAStandby(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.setHolder(t) // the second one
	a := s.injectKind(t, "leader-pause")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.processes[0].recordedActions, testTimeout).Should(ContainElement("resumed"))
	g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
	g.Expect(healAndGetVoidReason(t, a)).To(Equal("replica one did not lead when it began: host_2 did"))
}

// A process may stop after its pause was reported as failed, and only the harness resumes it.
func TestPausedLeader_IsResumedAfterAFailedPause(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.processes[0].pauseErr = errors.New("its state is unknown")
	a, err := s.inject(t.Context(), scenario.Scenario{}, planOf(t, "leader-pause"), thing)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.processes[0].recordedActions, testTimeout).Should(Equal([]string{"paused", "resumed"}))
	g.Expect(a.heal()).To(MatchError(ContainSubstring("its state is unknown")))
	g.Expect(a.result().Happened).To(BeZero())
}
