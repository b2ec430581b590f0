package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// injectPair injects a plan of two faults. The first is a crash at the first PATCH of the thing.
func (s *testbed) injectPair(t *testing.T, second string) *activeFault {
	t.Helper()
	plan, err := scenario.ParsePlan("s:crash-after-write:PATCH:/things/{thing}:1+" + second + ":PATCH:/things/{thing}:2")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s.injectPlan(t, plan)
}

// crashFirst makes worker one meet the first fault, and waits until it has started again.
func (s *testbed) crashFirst(t *testing.T, a *activeFault) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.patch(t, 0, "/things/thing-1")).To(BeZero())
	g.Eventually(func() bool { a.mu.Lock(); defer a.mu.Unlock(); return !a.recovery.began.IsZero() }, testTimeout).
		Should(BeTrue())
	g.Eventually(func() int { starts, _ := s.processes[0].counts(); return starts }, testTimeout).Should(Equal(2))
	g.Eventually(func() bool { return s.replicas[0].ranAt(time.Now()) }, testTimeout).Should(BeTrue())
}

func TestSecondFault_CountsFromTheFirst(t *testing.T) {
	for _, tc := range []struct {
		second string
		answer int // to the second PATCH of the recovery
		kills  int // of worker two
	}{
		{"crash-after-write", 0, 1},
		{"crash-before-write", 0, 1},
		{"lost-response", 0, 0},
		{"failed-write-503", http.StatusServiceUnavailable, 0},
	} {
		t.Run(tc.second, func(t *testing.T) {
			g := NewWithT(t)
			s := newTestbed(t, http.StatusOK)
			a := s.injectPair(t, tc.second)
			g.Expect(s.patch(t, 1, "/things/other")).To(Equal(http.StatusOK))
			s.crashFirst(t, a)
			before, _ := a.effects()
			g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(http.StatusOK), "the first of the recovery")
			g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(tc.answer), "the second")
			g.Eventually(func() int { _, kills := s.processes[1].counts(); return kills }, testTimeout).Should(Equal(tc.kills))
			g.Eventually(func() time.Time {
				requests := s.replicas[1].proxy.Journal().Requests
				return requests[len(requests)-1].Done
			}, testTimeout).ShouldNot(BeZero())
			after, _ := a.effects()
			g.Expect(after).To(BeNumerically(">", before), "a checkpoint waits for the second fault")
			g.Expect(a.heal()).To(Succeed())
			faults := a.results()
			g.Expect(faults).To(HaveExactElements(
				And(HaveField("Name", "s:crash-after-write:PATCH:/things/{thing}:1"), HaveField("Happened", 1), HaveField("Replica", "one")),
				And(HaveField("Name", "s:crash-after-write:PATCH:/things/{thing}:1+"+tc.second+":PATCH:/things/{thing}:2"),
					HaveField("Happened", 1), HaveField("Replica", "two")),
			))
			g.Expect((&history.History{Faults: faults}).Void()).To(BeEmpty())
			g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(http.StatusOK), "it is over")
		})
	}
}

func TestSecondFault_VoidWithoutEitherFault(t *testing.T) {
	for name, tc := range map[string]struct {
		first    bool
		requests int  // of the recovery
		ends     bool // the recovery, before the last request
		void     []string
	}{
		"NoFirst": {false, 2, false, []string{"no PATCH of /things/{thing} came for the 1. time",
			"no PATCH of /things/{thing} came for the 2. time in the recovery"}},
		"NoSecond":        {true, 1, false, []string{"no PATCH of /things/{thing} came for the 2. time in the recovery"}},
		"AfterCheckpoint": {true, 2, true, []string{"no PATCH of /things/{thing} came for the 2. time in the recovery"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newTestbed(t, http.StatusOK)
			a := s.injectPair(t, "crash-before-write")
			if tc.first {
				s.crashFirst(t, a)
			} else {
				a.injections[1].Heal() // worker two is not to meet it
			}
			for i := range tc.requests {
				if tc.ends && i == tc.requests-1 {
					a.endRecovery()
				}
				g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(http.StatusOK))
			}
			g.Expect(a.heal()).To(Succeed())
			var void []string
			for _, f := range (&history.History{Faults: a.results()}).Void() {
				void = append(void, f.Detail)
			}
			g.Expect(void).To(Equal(tc.void))
		})
	}
}

// A checkpoint before the first fault ends nothing.
func TestSecondFault_OutlivesEarlierCheckpoints(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	a := s.injectPair(t, "failed-write-500")
	a.endRecovery()
	s.crashFirst(t, a)
	g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(http.StatusOK))
	g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(http.StatusInternalServerError))
	g.Expect(a.heal()).To(Succeed())
	g.Expect((&history.History{Faults: a.results()}).Void()).To(BeEmpty())
	(*activeFault)(nil).endRecovery() // of a clean run
}

// What a killed process had sent may reach its proxy late. That is no write of the recovery.
func TestSecondFault_IgnoresEndedProcesses(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	a := s.injectPair(t, "lost-response")
	s.crashFirst(t, a)
	for range 2 {
		s.patch(t, 1, "/things/thing-1")
	}
	r := s.replicas[1]
	r.mu.Lock()
	r.processes[0].Started = time.Now().Add(time.Hour)
	r.mu.Unlock()
	g.Expect(a.heal()).To(Succeed())
	g.Expect((&history.History{Faults: a.results()}).Void()).
		To(HaveExactElements(HaveField("Detail", ContainSubstring("of a process that had ended"))))
}

func TestExecution_RecoveryWrites(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	a := s.injectPlan(t, scenario.Plan{Scenario: "s", Fault: scenario.CrashAfterWrite,
		Target: scenario.Target{Method: http.MethodPatch, Path: "/things/{thing}", Nth: 1}})
	run := &execution{prover: s.Prover, journalOffsets: []int{0, 0}, activeFault: a}
	h := &history.History{Aliases: map[string]string{"thing-1": "{thing}"}}
	send := func(worker int, method, path, id string, effect history.Effect) {
		s.request(t, worker, method, path, id)
		h.Requests = append(h.Requests,
			history.Request{ID: id, Key: history.Key{Resource: things, Name: "thing-1"}, Effect: effect})
	}
	send(1, http.MethodPost, "/things", "before", history.Stored)
	s.crashFirst(t, a)
	g.Expect(run.recoveryWrites(h)).To(BeNil(), "no checkpoint has begun")
	send(1, http.MethodPost, "/things", "again", history.Refused)
	send(1, http.MethodPut, "/things/thing-1/status", "status", history.Stored)
	send(0, http.MethodPut, "/things/thing-1/status", "standby", history.Stored)
	a.endRecovery()
	send(1, http.MethodDelete, "/things/thing-1", "after", history.Deleted)
	g.Expect(run.recoveryWrites(h)).To(Equal([]scenario.Write{
		{Method: http.MethodPost, Path: "/things"},
		{Method: http.MethodPut, Path: "/things/{thing}/status", Effective: true},
	}))
	g.Expect((&execution{prover: s.Prover}).recoveryWrites(h)).To(BeNil(), "in a clean run")
}
