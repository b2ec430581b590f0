package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/scenario"
)

func TestExternalFault(t *testing.T) {
	for _, tc := range []struct {
		fault  string
		answer int // that the caller got to its second call
		came   int // of three calls
		kills  int
	}{
		{"external-crash", 0, 3, 1},
		{"external-lost-response", 0, 3, 0},
		{"external-error-503", http.StatusServiceUnavailable, 2, 0},
		{"external-slow", http.StatusOK, 3, 0},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			g := NewWithT(t)
			s := newTestbed(t, http.StatusOK)
			d := newExternalStore(t, s, http.StatusOK)
			a := s.injectPlan(t, callPlan(t, tc.fault, "PUT:/{thing}:2"))
			g.Expect(d.call(t, "two", http.MethodPut, "/thing-1")).To(Equal(http.StatusOK), "the first")
			g.Expect(d.call(t, "one", http.MethodPut, "/thing-1?tag=x")).To(Equal(http.StatusOK), "another one")
			g.Expect(d.call(t, "two", http.MethodPut, "/thing-1")).To(Equal(tc.answer), "the second")
			g.Eventually(func() int { _, kills := s.processes[1].counts(); return kills }, testTimeout).Should(Equal(tc.kills))
			g.Eventually(func() time.Time {
				requests := d.proxy.Journal().Requests
				return requests[len(requests)-1].Done
			}, testTimeout).ShouldNot(BeZero())
			f := healAndGetFault(t, a)
			g.Expect(f.Replica).To(Equal("two"), "whose call it was")
			g.Expect(f.Detail).To(Equal("PUT /thing-1"))
			g.Expect(d.received()).To(HaveLen(tc.came))
			_, kills := s.processes[0].counts()
			g.Expect(kills).To(BeZero(), "the other one lives")
			g.Expect(d.call(t, "two", http.MethodPut, "/thing-1")).To(Equal(http.StatusOK), "it is over")
		})
	}
}

func TestExternalFault_IsVoidWithoutEffect(t *testing.T) {
	for name, tc := range map[string]struct {
		fault, target string
		code          int // of the depot
		caller        string
		times         int
		detail        string
	}{
		"NobodyCame": {"external-lost-response", "PUT:/{thing}:2", http.StatusOK, "one", 1,
			"no PUT of /{thing} came for the 2. time"},
		"AnotherQuery":          {"external-lost-response", "PUT:/{thing}?tag:1", http.StatusOK, "one", 1, "no PUT of /{thing}?tag came"},
		"SenderUnknown":         {"external-crash", "PUT:/{thing}:2", http.StatusOK, "nobody", 2, "its sender is unknown"},
		"TheLostOneWasARefusal": {"external-lost-response", "PUT:/{thing}:2", http.StatusForbidden, "one", 2, "which was answered with 403"},
		"RefusedBeforeTheDeath": {"external-crash", "PUT:/{thing}:2", http.StatusConflict, "one", 2,
			"which was answered with 409"},
		"TheLateOneIsARefusalToo": {"external-slow", "PUT:/{thing}:2", http.StatusForbidden, "one", 2, "which was answered with 403"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newTestbed(t, http.StatusOK)
			d := newExternalStore(t, s, tc.code)
			a := s.injectPlan(t, callPlan(t, tc.fault, tc.target))
			for range tc.times {
				d.call(t, tc.caller, http.MethodPut, "/thing-1")
			}
			g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring(tc.detail))
		})
	}
}

// What only looks is lost as well if the answer is no.
func TestExternalFault_LosesAnyAnswerToARead(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	d := newExternalStore(t, s, http.StatusNotFound)
	a := s.injectPlan(t, callPlan(t, "external-lost-response", "GET:/{thing}?list&max:1"))
	g.Expect(d.call(t, "one", http.MethodGet, "/thing-1?max=1&list=2")).To(BeZero())
	g.Expect(a.heal()).To(Succeed())
	g.Expect(a.result().Happened).To(Equal(1))
}

func TestExternalFault_NeedsAnExternalSystem(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	_, err := s.inject(t.Context(), scenario.Scenario{}, callPlan(t, "external-lost-response", "PUT:/{thing}:1"), thing)
	g.Expect(err).To(MatchError(ContainSubstring("no external system")))
	newExternalStore(t, s, http.StatusOK)
	_, err = s.inject(t.Context(), scenario.Scenario{}, callPlan(t, "external-error-500", "PUT:/{thing}:1"), thing)
	g.Expect(err).To(MatchError(ContainSubstring("it never says that")))
}
