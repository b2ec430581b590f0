// SPDX-License-Identifier: Apache-2.0

package run

import (
	"net/http"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
)

// requestCases are faults that meet one request, the second of its kind.
func requestCases() map[string]faultCase {
	cases := map[string]faultCase{}
	for _, of := range []struct {
		fault         string
		answer        int // that the replica receives to it
		served, kills int // requests that are served of those before and of it, and kills of the replica
	}{
		{"crash-after-write", 0, 3, 1}, {"lost-response", 0, 3, 0},
		{"failed-write-409", http.StatusConflict, 2, 0}, {"failed-write-504", http.StatusGatewayTimeout, 2, 0},
	} {
		cases[of.fault] = faultCase{plan: of.fault, replica: "one", evidence: "^PATCH /things/thing-1$",
			cause: func(s *testbed) {
				s.Expect(s.patch(0, thingPath)).To(Equal(http.StatusOK), "the first")
				s.Expect(s.patch(0, "/things/another")).To(Equal(http.StatusOK), "another's")
				s.Expect(s.patch(0, thingPath)).To(Equal(of.answer), "the second")
				s.Expect(s.requests).To(HaveLen(of.served))
				s.waitUntilDone()
			}, also: func(s *testbed, _ history.FaultRecord) {
				s.Expect(s.processes[0].kills()).To(Equal(of.kills))
				s.Expect(s.processes[1].kills()).To(BeZero(), "the other one lives")
				s.Expect(s.patch(0, thingPath)).To(Equal(http.StatusOK), "it is over")
			}}
	}
	for _, of := range []struct {
		fault         string
		answer        int
		served, kills int
	}{
		{"external-crash", 0, 3, 1}, {"external-error-503", http.StatusServiceUnavailable, 2, 0},
	} {
		cases[of.fault] = faultCase{plan: of.fault + ":PUT:/{thing}:2", replica: "two", evidence: "^PUT /thing-1$",
			before: func(s *testbed) { s.addStore(http.StatusOK) },
			cause: func(s *testbed) {
				s.Expect(s.store.call("two", http.MethodPut, "/thing-1")).To(Equal(http.StatusOK), "the first")
				s.Expect(s.store.call("one", http.MethodPut, "/thing-1?tag=x")).To(Equal(http.StatusOK), "another one")
				s.Expect(s.store.call("two", http.MethodPut, "/thing-1")).To(Equal(of.answer), "the second")
				s.Expect(s.store.received()).To(Equal(of.served))
				s.store.waitUntilDone()
			},
			also: func(s *testbed, _ history.FaultRecord) {
				s.Expect(s.processes[1].kills()).To(Equal(of.kills))
				s.Expect(s.processes[0].kills()).To(BeZero(), "the other one lives")
				s.Expect(s.store.call("two", http.MethodPut, "/thing-1")).To(Equal(http.StatusOK), "it is over")
			}}
	}
	cases["crash-after-write/once"] = faultCase{plan: "crash-after-write", replica: "one", evidence: "^PATCH",
		cause: func(s *testbed) {
			for worker, answer := range []int{0, http.StatusOK} {
				s.Expect(s.patch(worker, thingPath)).To(Equal(http.StatusOK))
				s.Expect(s.patch(worker, thingPath)).To(Equal(answer))
				s.Eventually(s.occurrences).Should(Equal(1))
			}
		}, also: func(s *testbed, _ history.FaultRecord) { s.Expect(s.processes[1].kills()).To(BeZero()) }}
	return cases
}

// voidRequestCases are faults of one request that is not sent, or that is sent without its effect.
func voidRequestCases() map[string]faultCase {
	cases := map[string]faultCase{}
	for name, of := range map[string]struct {
		plan  string
		code  int // of the API server or the external system
		by    string
		times int
		void  string
	}{
		"crash-after-write/none": {"crash-after-write", 200, "", 0,
			"no PATCH of /things/{thing} came for the 2. time"},
		"crash-after-write/refused": {"crash-after-write", 409, "", 2, "which was answered with 409"},
		"lost-response/once":        {"lost-response", 200, "", 1, "no PATCH"},
		"lost-response/refused":     {"lost-response", 403, "", 2, "which was answered with 403"},
		"failed-write/once":         {"failed-write-500", 200, "", 1, "no PATCH"},
		"external-crash/no":         {"external-crash:PUT:/{thing}:2", 409, "one", 2, "which was answered with 409"},
		"external-crash/unknown":    {"external-crash:PUT:/{thing}:2", 200, "other", 2, "its sender is unknown"},
		"external-error/once":       {"external-error-503:PUT:/{thing}:2", 200, "one", 1, "no PUT"},
	} {
		cases[name] = faultCase{plan: of.plan, void: of.void, before: func(s *testbed) {
			s.code.Store(int64(of.code))
			s.addStore(of.code)
		}, cause: func(s *testbed) {
			for range of.times {
				if of.by == "" {
					s.patch(0, thingPath)
				} else {
					s.store.call(of.by, http.MethodPut, "/thing-1")
				}
			}
			s.waitUntilDone()
			s.store.waitUntilDone()
		}}
	}
	return cases
}
