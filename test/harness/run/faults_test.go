// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// faultCase is a plan in a run: what causes its fault, and what the run records of it.
type faultCase struct {
	// plan is the ID of a plan, as inject takes it.
	plan string
	// stopped means that time passes by steps of the test, for proxies too.
	stopped bool
	before  func(s *testbed) // before the fault is injected
	cause   func(s *testbed)
	// evidence matches the detail of the fault, which happened once, and replica is where: "" is at all.
	evidence, replica string
	// void is part of the reason why the fault did not happen.
	void string
	// err is part of an error of the harness.
	err  string
	also func(s *testbed, f history.FaultRecord)
}

func (tc faultCase) test(t *testing.T) {
	t.Helper()
	t.Parallel()
	s := newTestbed(t)
	if tc.stopped {
		s = newStoppedTestbed(t)
	}
	s.addObjects()
	if tc.before != nil {
		tc.before(s)
	}
	s.inject(tc.plan)
	if tc.cause != nil {
		tc.cause(s)
	}
	s.Expect(s.fault.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
	if err := s.fault.heal(); tc.err != "" {
		s.Expect(err).To(MatchError(ContainSubstring(tc.err)))
	} else {
		s.Expect(err).NotTo(HaveOccurred())
	}
	f := s.fault.result()
	if tc.evidence == "" {
		s.Expect(f.Happened).To(BeZero())
		s.Expect(f.Detail).To(ContainSubstring(tc.void))
		s.Expect((&history.History{Faults: []history.FaultRecord{f}}).Void()).To(HaveLen(1))
	} else {
		s.Expect(f.Happened).To(Equal(1), f.Detail)
		s.Expect(f.Detail).To(MatchRegexp(tc.evidence))
		s.Expect(f.Replica).To(Equal(tc.replica))
		s.Expect(f.Ended).To(BeTemporally(">=", f.Began))
	}
	if tc.also != nil {
		tc.also(s, f)
	}
}

// Each fault has its cause, its evidence, and a case in which it is void.
func TestFaults(t *testing.T) {
	all := map[string]faultCase{}
	for _, cases := range []map[string]faultCase{requestCases(), voidRequestCases(), interruptedCases(), leaderCases,
		stopCases, releaseCases, podCases, watchCases, startCases()} {
		maps.Copy(all, cases)
	}
	happens, voids := map[scenario.FaultName]bool{}, map[scenario.FaultName]bool{}
	for name, tc := range all {
		form, _, _ := strings.Cut(tc.plan, scenario.Separator)
		f, _, err := parseForm(form)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		happens[f] = happens[f] || tc.evidence != ""
		voids[f] = voids[f] || tc.void != ""
		t.Run(name, tc.test)
	}
	for _, of := range specs {
		switch of.fault {
		case attackFault.fault: // TestHostileAttack has it
		default:
			if happens[of.fault] && voids[of.fault] {
				continue
			}
			t.Errorf("%s: there is a case in which it happens: %t, in which it is void: %t", of.fault, happens[of.fault],
				voids[of.fault])
		}
	}
}

// interruptedCases are faults of a leader that no other one replaces, and such that the run's end interrupts.
func interruptedCases() map[string]faultCase {
	cases := map[string]faultCase{}
	for _, f := range []string{"late-write", "leader-pause", "false-evidence-replaced"} {
		cases[f+"/no successor"] = faultCase{plan: f, void: "no other replica than one came to lead within 200ms",
			before: func(s *testbed) { s.failover = 200 * time.Millisecond },
			cause:  func(s *testbed) { s.beginTarget(); s.Eventually(s.answer).Should(Receive()) },
			also:   func(s *testbed, _ history.FaultRecord) { s.expectReached(0, leasePath) }}
	}
	for _, f := range []string{"late-write", "leader-pause", "false-evidence-replaced", "false-evidence-deleted"} {
		cases[f+"/end of run"] = faultCase{plan: f, void: "the run ended before it was over", before: (*testbed).stopClock,
			cause: func(s *testbed) {
				s.beginTarget()
				s.Eventually(s.ongoing).Should(Equal(1))
				s.heal()
				s.Eventually(s.answer).Should(Receive())
			}, also: func(s *testbed, _ history.FaultRecord) {
				if f == "leader-pause" {
					s.Expect(s.processes[0].recordedActions()).To(Equal([]string{"paused", "resumed"}), "no process stays paused")
				}
			}}
	}
	return cases
}

// waitForAction waits until this was done to the process of replica one.
func (s *testbed) waitForAction(action string) {
	s.Eventually(s.processes[0].recordedActions).Should(ContainElement(action))
}

// leaderCases are faults of the leader's connections and of its time.
var leaderCases = map[string]faultCase{
	"late-write": {plan: "late-write", replica: "one",
		evidence: "^PATCH /things/thing-1, held for .* reached the API server when replica two led, and was answered 200 OK$",
		cause: func(s *testbed) {
			s.beginTarget()
			s.expectCut(0)
			s.expectReached(1, leasePath)
			for range 2 {
				s.Expect(s.patch(1, thingPath)).To(Equal(http.StatusOK), "what the next leader writes is not held")
			}
			s.Expect(s.answer).NotTo(Receive())
			s.lead(1)
			s.waitForAnswer()
		}, also: func(s *testbed, f history.FaultRecord) {
			s.expectReached(0, leasePath)
			s.Expect(f.Overtaken).To(Equal(f.Ended.Add(2 * time.Second)))
		}},
	"late-write/sender ended": {plan: "late-write", replica: "one", evidence: "answered 200", cause: func(s *testbed) {
		s.Expect(s.patch(0, thingPath)).To(Equal(http.StatusOK), "the first")
		end := s.beginRequest(http.MethodPatch, thingPath)
		s.expectCut(0)
		s.Expect(end()).To(BeZero())
		s.lead(1)
	}},
	"leader-pause": {plan: "leader-pause", replica: "one",
		evidence: `^paused at PATCH /things/thing-1, and went on \S+ later, when replica two led$`,
		cause: func(s *testbed) {
			s.sendTarget()
			s.Eventually(s.processes[0].recordedActions).Should(Equal([]string{"paused"}))
			s.lead(1)
			s.patch(1, thingPath)
		}, also: func(s *testbed, f history.FaultRecord) {
			s.Expect(f.Overtaken).To(Equal(f.Ended.Add(2 * time.Second)))
			s.Expect(s.processes[0].recordedActions()).To(Equal([]string{"paused", "resumed"}))
			s.Expect(s.processes[1].recordedActions()).To(BeEmpty())
		}},
	// A replica that does not lead may write, for example without leader election. Its pause takes the
	// Lease from no leader.
	"leader-pause/standby": {plan: "leader-pause", void: "replica one did not lead when it began: host_2 did",
		before: func(s *testbed) { s.lead(1) },
		cause:  func(s *testbed) { s.sendTarget(); s.waitForAction("resumed") }},
	// A process may stop after its pause was reported as failed, and only the harness resumes it.
	"leader-pause/failed": {plan: "leader-pause", err: "its state is unknown",
		before: func(s *testbed) { s.processes[0].pauseErr = errors.New("its state is unknown") },
		cause:  func(s *testbed) { s.sendTarget(); s.waitForAction("resumed") }},
}

// beginRequest sends a request as replica one. end ends the sender and returns the code of the answer.
func (s *testbed) beginRequest(method, path string) (end func() int) {
	ctx, cancel := context.WithCancel(s.t.Context())
	code := inBackground(func() int {
		got, _ := send(ctx, method, s.running()[0].proxy.URL()+path, "")
		return got
	})
	return func() int { cancel(); return <-code }
}

// terminated expects that only this replica got SIGTERM, once, and started again.
func terminated(worker int) func(*testbed, history.FaultRecord) {
	return func(s *testbed, _ history.FaultRecord) {
		s.Expect(s.processes[worker].recordedActions()).To(Equal([]string{"asked by terminated"}))
		s.Expect(s.processes[1-worker].recordedActions()).To(BeEmpty())
		s.Eventually(s.processes[worker].starts).Should(BeNumerically(">=", 2), "as a kubelet does")
		n := 0
		for _, life := range s.replicas[worker].lifetimes() {
			if !life.Asked.IsZero() && !life.Ended.IsZero() && !life.Killed {
				n++
			}
		}
		s.Expect(n).To(Equal(1))
	}
}

// upgraded expects the programs of the replicas that were started, and those replicas that are left.
func upgraded(binaries, left []string) func(*testbed, history.FaultRecord) {
	return func(s *testbed, _ history.FaultRecord) {
		s.Expect(s.names()).To(Equal(left))
		var started []string
		for _, w := range s.processes[2:] {
			started = append(started, w.overrides.binary)
		}
		s.Expect(started).To(Equal(binaries))
		lives := s.historySince(time.Time{}).Replicas
		s.Expect(lives).To(HaveLen(len(s.processes)))
		for _, life := range lives[:len(lives)-2] {
			s.Expect([]time.Time{life.Asked, life.Ended}).To(HaveEach(Not(BeZero())), life.Name)
		}
		s.Expect(s.lifetime("three").Started).To(BeTemporally("<", s.lifetime("one").Asked),
			"the new one exists before the old one is deleted")
	}
}

func writeTwice(s *testbed) {
	for range 2 {
		s.Expect(s.patch(0, thingPath)).To(Equal(http.StatusOK))
	}
}

// stopCases are faults that end processes.
var stopCases = map[string]faultCase{
	"stop-leader": {plan: "stop-leader", replica: "one", evidence: "^asked to stop at PATCH /things/thing-1$",
		cause: (*testbed).sendTarget, also: terminated(0)},
	"stop-leader/none": {plan: "stop-leader", void: "no PATCH"},
	"stop-leader/grace period": {plan: "stop-leader", replica: "one", evidence: "^asked to stop",
		before: func(s *testbed) {
			s.subject.Contract.Limits.Grace.Duration = 100 * time.Millisecond
			s.processes[0].ignoresSignals = true
		}, cause: (*testbed).sendTarget, also: func(s *testbed, _ history.FaultRecord) {
			life := s.lifetime("one")
			s.Expect(life.Killed).To(BeFalse(), "it had its chance")
			s.Expect(life.Ended.Sub(life.Asked)).To(BeNumerically(">", 100*time.Millisecond))
			s.Expect(s.processes[0].kills()).To(BeNumerically(">=", 1))
		}},
	"upgrade": {plan: "upgrade", evidence: "^rolled over at PATCH /things/thing-1 by one, of the same build$",
		cause: writeTwice, also: upgraded([]string{"", ""}, []string{"three", "four"})},
	"upgrade/previous build": {plan: "upgrade",
		evidence: "^rolled over at PATCH /things/thing-1 by three, from the previous build to this one$",
		before:   func(s *testbed) { s.subject.Previous = "old" }, cause: writeTwice,
		also: upgraded([]string{"old", "old", "", ""}, []string{"five", "six"})},
	"upgrade/none": {plan: "upgrade", void: "no PATCH", before: func(s *testbed) { s.subject.Previous = "old" },
		also: upgraded([]string{"old", "old", "", ""}, []string{"five", "six"})},
}
