// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

// killLeader ends the process of worker one, which has written the Lease last, and starts another.
func (s *testbed) killLeader() {
	s.lead(0)
	s.waitUntilDone()
	s.replicas[0].kill()
	s.Eventually(s.replicas[0].lifetimes).Should(HaveLen(2))
}

// waitUntilDone waits until the proxies have finished with all requests and connections.
func (s *testbed) waitUntilDone() {
	for _, r := range s.replicas {
		s.Eventually(func() bool { return leftNothing(r.proxy.Journal(), time.Now()) }).Should(BeTrue())
	}
}

func (s *testbed) leaseReleases() []history.LeaseRelease { return s.historySince(time.Time{}).Releases }

func TestReleaseLease_OfAnEndedProcess(t *testing.T) {
	s := newElection(t)
	s.killLeader()
	s.Expect(s.releaseLease(t.Context())).To(Succeed())
	s.Expect(s.releases).To(HaveExactElements(And(HaveField("Replica", "one"), HaveField("Identity", "host_1"),
		HaveField("ResourceVersion", Not(BeEmpty())))))
	s.Expect(s.holder(t.Context())).To(BeEmpty())
	s.Expect(s.releaseLease(t.Context())).To(Succeed())
	s.Expect(s.releases).To(HaveLen(1), "it has no holder")
}

// Near misses: the Lease keeps its holder.
func TestReleaseLease_KeepsTheLeaseOtherwise(t *testing.T) {
	for name, prepare := range map[string]func(s *testbed){
		"HolderLives":                func(s *testbed) { s.lead(0); s.waitUntilDone() },
		"AnotherTookItBefore":        func(s *testbed) { s.killLeader(); s.lead(1); s.waitUntilDone() },
		"ItsNextProcessTookItBefore": func(s *testbed) { s.killLeader(); s.lead(0); s.waitUntilDone() },
		"AnotherTakesItMeanwhile": func(s *testbed) {
			s.killLeader()
			stored, _ := s.client.(client.WithWatch)
			s.client = interceptor.NewClient(stored, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
					opts ...client.PatchOption) error {
					s.renewLease(stored, 1)
					err := c.Patch(ctx, o, p, opts...)
					s.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
					return err
				},
			})
		},
		"NoRecordOfTheHolder": func(*testbed) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newElection(t)
			prepare(s)
			before := s.holder(t.Context())
			s.Expect(s.releaseLease(t.Context())).To(Succeed())
			s.Expect(s.releases).To(BeEmpty())
			s.Expect(s.holder(t.Context())).To(And(Not(BeEmpty()), Or(Equal(before), Equal("host_2"))))
		})
	}
}

// What a process had sent may be stored after its end.
func TestLeftNothing(t *testing.T) {
	ended := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	before, after := ended.Add(-time.Second), ended.Add(time.Second)
	closed := []fault.Connection{{Accepted: before, Closed: after}, {Accepted: after}}
	for name, tc := range map[string]struct {
		journal fault.Journal
		want    bool
	}{
		"Nothing": {fault.Journal{}, true},
		"Answered": {fault.Journal{Connections: closed,
			Requests: []fault.ProxiedRequest{{Method: "PUT", Received: before, Forwarded: before, Answered: before,
				Done: after}}}, true},
		"NotForwarded": {fault.Journal{Requests: []fault.ProxiedRequest{{Method: "PUT", Received: before, Done: after}}}, true},
		"ARead": {fault.Journal{Requests: []fault.ProxiedRequest{{Method: "GET", Received: before, Forwarded: before,
			Done: after}}}, true},
		"OfTheNext": {fault.Journal{Requests: []fault.ProxiedRequest{{Method: "PUT", Received: after, Forwarded: after}}}, true},
		"OnItsWay": {fault.Journal{Requests: []fault.ProxiedRequest{{Method: "GET", Received: before, Forwarded: before}}},
			false},
		"NoAnswer": {fault.Journal{Requests: []fault.ProxiedRequest{{Method: "PUT", Received: before, Forwarded: before,
			Done: after}}}, false},
		"OpenAtTheEnd": {fault.Journal{Connections: append(closed, fault.Connection{Accepted: before})}, false},
	} {
		if got := leftNothing(tc.journal, ended); got != tc.want {
			t.Errorf("%s: leftNothing() = %t, want %t", name, got, tc.want)
		}
	}
}

// releaseCases show which faults release the Lease: a paused leader still runs, so its Lease has to expire.
var releaseCases = map[string]faultCase{
	"crash-after-write/release": {plan: "crash-after-write", replica: "one", evidence: "^PATCH",
		before: func(s *testbed) { s.subject.ReleaseLease = true; s.lead(0) },
		cause:  func(s *testbed) { writeAndCrash(s); s.Eventually(s.leaseReleases).Should(HaveLen(1)) },
		also:   func(s *testbed, _ history.FaultRecord) { s.Expect(s.holder(s.t.Context())).To(BeEmpty()) }},
	"crash-after-write/no release": {plan: "crash-after-write", replica: "one", evidence: "^PATCH",
		before: func(s *testbed) { s.lead(0) }, cause: writeAndCrash, also: holds("host_1")},
	"leader-pause/no release": {plan: "leader-pause", replica: "one", evidence: "^paused",
		before: func(s *testbed) { s.subject.ReleaseLease = true; s.lead(0) },
		cause: func(s *testbed) {
			s.sendTarget()
			s.waitForAction("paused")
			s.Expect(s.holder(s.t.Context())).To(Equal("host_1"))
			s.lead(1)
			s.waitForAction("resumed")
		}, also: holds("host_2")},
}

func writeAndCrash(s *testbed) {
	s.Expect(s.patch(0, thingPath)).To(Equal(http.StatusOK))
	s.Expect(s.patch(0, thingPath)).To(BeZero())
	s.Eventually(s.occurrences).Should(Equal(1))
}

func holds(identity string) func(s *testbed, f history.FaultRecord) {
	return func(s *testbed, _ history.FaultRecord) {
		s.Expect(s.leaseReleases()).To(BeEmpty())
		s.Expect(s.holder(s.t.Context())).To(Equal(identity))
	}
}
