// SPDX-License-Identifier: Apache-2.0

package run

import (
	"net/http"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// watchCases are faults of watches, before the first or the second step that acts.
var watchCases = map[string]faultCase{
	"watch-delay": {plan: "watch-delay:WATCH:/things:2", stopped: true, replica: "one",
		evidence: "^events of /things were late after step 2: ADDED late$", cause: func(s *testbed) {
			lines := s.watch(0, "/things", "")
			s.step(0)
			s.step(1)
			s.sendEvent("early")
			s.Eventually(lines).Should(Receive(ContainSubstring("early")), "before the step")
			s.stopped.Step(time.Second)
			s.step(2)
			s.Expect(s.ongoing()).To(Equal(2), "at both replicas")
			s.sendEvent("late")
			s.Eventually(s.fault.injections[0].Happened).Should(BeTrue())
			s.Expect(lines).NotTo(Receive())
			s.waitUntilOver()
			s.Eventually(lines).Should(Receive(ContainSubstring("late")))
		}, also: func(s *testbed, f history.FaultRecord) {
			s.Expect(f.Ended.Sub(f.Began)).To(BeNumerically(">=", silenceFor))
		}},
	"watch-delay/no watch": {plan: "watch-delay:WATCH:/things:1", stopped: true, void: "no events of /things were",
		cause: func(s *testbed) { s.step(0); s.waitUntilOver() }},
}

const collection = "/apis/example.com/v1/things"

// listed makes the API server answer lists without a selector.
func listed(body string) func(s *testbed) { return func(s *testbed) { s.lists.Store("", body) } }

// get lists the collection as replica one.
func (s *testbed) get(query string) (code int, list string) {
	return send(s.t.Context(), http.MethodGet, s.running()[0].proxy.URL()+collection+query, "")
}

func (s *testbed) expectList(query, body string) {
	code, list := s.get(query)
	s.Expect(code).To(Equal(http.StatusOK))
	s.Expect(list).To(Equal(body))
}

// startStaleReplicas lets all replicas start with the list of before the second step that acts, as informers of
// client-go 0.35 do.
func (s *testbed) startStaleReplicas(meanwhile func()) {
	s.restartStale(meanwhile)
	s.Eventually(func() int { code, _ := s.get("?watch=true&sendInitialEvents=true"); return code }).
		Should(Equal(http.StatusInternalServerError))
}

func (s *testbed) restartStale(meanwhile func()) {
	s.step(2)
	meanwhile()
	s.Expect(s.processes[0].kills()).To(BeZero(), "it first does its work")
	advance(s.t, s.stopped, silenceFor)
	for _, w := range s.processes {
		s.Eventually(w.kills).Should(Equal(1))
	}
}

// startCases are faults of starting replicas. The other replica sends no request.
func startCases() map[string]faultCase {
	const plan = "stale-start:START:" + collection + ":2"
	cases := map[string]faultCase{
		"stale-start": {plan: plan, stopped: true, before: listed("before"), replica: "one",
			evidence: "^all replicas were killed, and found " + collection + " as it was before step 2$",
			cause: func(s *testbed) {
				s.startStaleReplicas(func() { listed("after")(s) })
				s.expectList("?limit=500&resourceVersion=0", "before")
				s.expectList("", "after") // the newest version is the API server's
				lines := s.watch(0, collection, "")
				s.sendEvent("after")
				s.Consistently(lines, 50*time.Millisecond).ShouldNot(Receive())
				s.Eventually(func() <-chan string { s.stopped.Step(staleFor); return lines }).
					Should(Receive(ContainSubstring("after")))
				s.expectList("?limit=500&resourceVersion=0", "after") // it is over
				s.Eventually(s.occurrences).Should(Equal(1))
				s.heal()
			}, also: func(s *testbed, f history.FaultRecord) {
				s.Expect(f.Legal).To(MatchRegexp(`^needs one error: .*sendInitialEvents=true.* 500, .*resourceVersion=0`))
			}},
		// Informers of an older client-go begin with the list.
		"stale-start/list": {plan: plan, stopped: true, before: listed("before"), replica: "one",
			evidence: "as it was before step 2$", cause: func(s *testbed) {
				s.restartStale(func() { listed("after")(s) })
				s.Eventually(func() string { _, list := s.get("?resourceVersion=0"); return list }).Should(Equal("before"))
				s.Eventually(func() int { s.stopped.Step(staleFor); return s.occurrences() }).Should(Equal(1))
				s.heal()
			}, also: func(s *testbed, f history.FaultRecord) {
				s.Expect(f.Legal).To(MatchRegexp(`^needs no error: .*resourceVersion=0, which any version may answer`))
			}},
		// A list with a label selector does not get the other objects.
		"stale-start/selector": {plan: plan, stopped: true, replica: "one", evidence: "as it was before step 2$",
			before: func(s *testbed) {
				listed("all")(s)
				s.lists.Store("made=by-us", "ours")
				s.watch(0, collection, "&labelSelector=made%3Dby-us")
			}, cause: func(s *testbed) {
				s.startStaleReplicas(func() { listed("later")(s); s.lists.Store("made=by-us", "later") })
				s.expectList("?resourceVersion=0&labelSelector=made%3Dby-us", "ours")
				s.expectList("?resourceVersion=0", "all")
				s.Eventually(func() int { s.stopped.Step(staleFor); return s.occurrences() }).Should(Equal(1))
				s.heal()
			}},
		// A client that lists the newest version cannot be given an old list. It meets late watches.
		"stale-start/newest": {plan: plan, stopped: true, replica: "one",
			evidence: "found " + collection + " at the newest version", cause: func(s *testbed) {
				s.startStaleReplicas(func() {})
				s.expectList("?limit=500", "") // the API server answers
				s.Eventually(func() int { s.stopped.Step(staleFor); return s.occurrences() }).Should(Equal(1))
				s.heal()
			}},
		"stale-start/none": {plan: plan, stopped: true, void: "no START",
			cause: func(s *testbed) { s.step(0) }},
		// Where the replicas list their kinds, and not the collection, nothing can be stale.
		"stale-start/not listed": {plan: plan, stopped: true, void: "replica one listed its kinds when it started, and not " + collection,
			before: func(s *testbed) {
				s.subject.Contract.Kinds = []invariant.Kind{{Resource: history.Resource{Resource: "services"}}}
			}, cause: func(s *testbed) {
				s.step(2)
				advance(s.t, s.stopped, silenceFor)
				s.Eventually(s.processes[1].kills).Should(Equal(1))
				s.expectReached(0, "/api/v1/services")
				s.stopped.Step(time.Millisecond)
				s.watch(0, "/api/v1/services", "")
				s.heal()
			}, also: func(s *testbed, f history.FaultRecord) { s.Expect(f.NotApplicable).To(BeTrue()) }},
		// A request of the process that was killed is not one of a start.
		"failed-list/no request": {plan: "failed-list-403:START:/things:2", stopped: true, void: "did not ask for /things",
			cause: func(s *testbed) { s.expectReached(0, "/things"); s.step(0); s.step(2); s.heal() }},
	}
	for variant, answer := range map[string]int{variantTimeout: http.StatusOK, "403": http.StatusForbidden,
		"404": http.StatusNotFound} {
		cases["failed-list-"+variant] = faultCase{plan: "failed-list-" + variant + ":START:/things:1", stopped: true,
			replica:  "one",
			evidence: "GET /things met " + variant, cause: func(s *testbed) {
				s.step(0)
				for _, w := range s.processes {
					s.Expect(w.kills()).To(Equal(1), "all of them")
				}
				s.answer = inBackground(func() int { return s.request(0, http.MethodGet, "/things", "") })
				if variant == variantTimeout {
					s.Consistently(s.answer, 50*time.Millisecond).ShouldNot(Receive())
				} else {
					s.Eventually(s.answer).Should(Receive(Equal(answer)))
				}
				s.Eventually(func() bool { return s.fault.injections[0].Happened() && s.stopped.HasWaiters() }).Should(BeTrue())
				s.stopped.Step(raceFor)
				if variant == variantTimeout {
					s.Eventually(s.answer).Should(Receive(Equal(answer)))
				}
				s.Eventually(s.occurrences).Should(Equal(1))
				s.expectReached(0, "/things") // it is over
				s.heal()
			}}
	}
	return cases
}
