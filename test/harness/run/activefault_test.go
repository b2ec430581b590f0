package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

func TestActiveFault_MeetsOnlyItsRequest(t *testing.T) {
	for _, tc := range []struct {
		kind   string
		answer int // that the client got to its second request
		asked  int // requests that the API server saw, of three
		kills  int
	}{
		{"crash-after-write", 0, 3, 1},
		{"lost-response", 0, 3, 0},
		{"failed-write-409", http.StatusConflict, 2, 0},
		{"failed-write-504", http.StatusGatewayTimeout, 2, 0},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			g := NewWithT(t)
			s := newTestbed(t, http.StatusOK)
			a := s.injectKind(t, tc.kind)
			g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(http.StatusOK), "the first")
			g.Expect(s.patch(t, 0, "/things/another")).To(Equal(http.StatusOK), "another's")
			g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(tc.answer), "the second")
			g.Eventually(func() int { _, kills := s.processes[0].counts(); return kills }, testTimeout).Should(Equal(tc.kills))
			g.Eventually(func() time.Time {
				requests := s.replicas[0].proxy.Journal().Requests
				return requests[len(requests)-1].Done
			}, testTimeout).ShouldNot(BeZero())
			f := healAndGetFault(t, a)
			g.Expect(f.Replica).To(Equal("one"))
			g.Expect(f.Detail).To(Equal("PATCH /things/thing-1"))
			g.Expect(s.requests).To(HaveLen(tc.asked))
			_, kills := s.processes[1].counts()
			g.Expect(kills).To(BeZero(), "the other one lives")
			g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(http.StatusOK), "it is over")
		})
	}
}

func TestCrash_KillsOneReplicaOnly(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	a := s.injectKind(t, "crash-after-write")
	for worker, want := range []int{0, http.StatusOK} {
		g.Expect(s.patch(t, worker, "/things/thing-1")).To(Equal(http.StatusOK))
		g.Expect(s.patch(t, worker, "/things/thing-1")).To(Equal(want))
		g.Eventually(func() []history.Fault { a.mu.Lock(); defer a.mu.Unlock(); return a.occurrences }, testTimeout).
			Should(HaveLen(1))
	}
	_, kills := s.processes[1].counts()
	g.Expect(kills).To(BeZero())
}

func TestActiveFault_IsVoidWithoutItsRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   string
		code   int // of the API server
		times  int // that the request comes
		detail string
	}{
		"NobodyCame":            {"crash-after-write", http.StatusOK, 0, "no PATCH of /things/{thing} came for the 2. time"},
		"OnlyOnce":              {"lost-response", http.StatusOK, 1, "no PATCH"},
		"RefusedAnyway":         {"crash-after-write", http.StatusConflict, 2, "which was answered with 409"},
		"TheLostOneWasARefusal": {"lost-response", http.StatusForbidden, 2, "which was answered with 403"},
		"NothingToRefuse":       {"failed-write-500", http.StatusOK, 1, "no PATCH"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newTestbed(t, tc.code)
			a := s.injectKind(t, tc.kind)
			for range tc.times {
				s.patch(t, 0, "/things/thing-1")
			}
			g.Expect(a.heal()).To(Succeed())
			f := a.result()
			g.Expect(f.Happened).To(BeZero())
			g.Expect(f.Detail).To(ContainSubstring(tc.detail))
			h := &history.History{Faults: []history.Fault{f}}
			g.Expect(h.Void()).To(HaveLen(1))
		})
	}
}

func TestInject_RejectsUnknownPlans(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	_, err := s.inject(t.Context(), scenario.Scenario{},
		Plan{Fault: failedWrite.fault, Variant: "418"}, thing)
	g.Expect(err).To(MatchError(ContainSubstring("418")))
	_, err = s.inject(t.Context(), scenario.Scenario{}, Plan{Fault: "no-such-fault"}, thing)
	g.Expect(err).To(MatchError(ContainSubstring(`"no-such-fault"`)))
}
