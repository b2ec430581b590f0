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
func (s *testbed) killLeader(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	s.renewLease(t, s.client, 0)
	s.waitUntilDone(t)
	s.replicas[0].kill()
	g.Eventually(func() []history.Process { return s.replicas[0].lifetimes() }, testTimeout).Should(HaveLen(2))
}

// waitUntilDone waits until the proxies have finished with all requests and connections.
func (s *testbed) waitUntilDone(t *testing.T) {
	t.Helper()
	for _, r := range s.replicas {
		NewWithT(t).Eventually(func() bool { return leftNothing(r.proxy.Journal(), time.Now()) }, testTimeout).
			Should(BeTrue())
	}
}

func (s *testbed) leaseReleases() []history.LeaseRelease { return s.historySince(time.Time{}).Releases }

func TestReleaseLease_OfAnEndedProcess(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.killLeader(t)
	g.Expect(s.releaseLease(t.Context())).To(Succeed())
	g.Expect(s.releases).To(HaveExactElements(And(HaveField("Replica", "one"), HaveField("Identity", "host_1"),
		HaveField("ResourceVersion", Not(BeEmpty())))))
	g.Expect(s.holder(t.Context())).To(BeEmpty())
	g.Expect(s.releaseLease(t.Context())).To(Succeed())
	g.Expect(s.releases).To(HaveLen(1), "it has no holder")
}

// Near misses: the Lease keeps its holder.
func TestReleaseLease_KeepsTheLeaseOtherwise(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, s *testbed){
		"HolderLives": func(t *testing.T, s *testbed) {
			t.Helper()
			s.renewLease(t, s.client, 0)
			s.waitUntilDone(t)
		},
		"AnotherTookItBefore": func(t *testing.T, s *testbed) {
			t.Helper()
			s.killLeader(t)
			s.setHolder(t)
			s.waitUntilDone(t)
		},
		"ItsNextProcessTookItBefore": func(t *testing.T, s *testbed) {
			t.Helper()
			s.killLeader(t)
			s.renewLease(t, s.client, 0)
			s.waitUntilDone(t)
		},
		"AnotherTakesItMeanwhile": func(t *testing.T, s *testbed) {
			t.Helper()
			s.killLeader(t)
			stored, _ := s.client.(client.WithWatch)
			s.client = interceptor.NewClient(stored, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
					opts ...client.PatchOption) error {
					s.renewLease(t, stored, 1)
					err := c.Patch(ctx, o, p, opts...)
					NewWithT(t).Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
					return err
				},
			})
		},
		"NoRecordOfTheHolder": func(*testing.T, *testbed) {},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			prepare(t, s)
			before := s.holder(t.Context())
			g.Expect(s.releaseLease(t.Context())).To(Succeed())
			g.Expect(s.releases).To(BeEmpty())
			g.Expect(s.holder(t.Context())).To(And(Not(BeEmpty()), Or(Equal(before), Equal("host_2"))))
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
			Requests: []fault.Request{{Method: "PUT", Received: before, Forwarded: before, Answered: before, Done: after}}},
			true},
		"NotForwarded": {fault.Journal{Requests: []fault.Request{{Method: "PUT", Received: before, Done: after}}}, true},
		"ARead": {fault.Journal{Requests: []fault.Request{{Method: "GET", Received: before, Forwarded: before,
			Done: after}}}, true},
		"OfTheNext": {fault.Journal{Requests: []fault.Request{{Method: "PUT", Received: after, Forwarded: after}}}, true},
		"OnItsWay": {fault.Journal{Requests: []fault.Request{{Method: "GET", Received: before, Forwarded: before}}},
			false},
		"NoAnswer": {fault.Journal{Requests: []fault.Request{{Method: "PUT", Received: before, Forwarded: before,
			Done: after}}}, false},
		"OpenAtTheEnd": {fault.Journal{Connections: append(closed, fault.Connection{Accepted: before})}, false},
	} {
		if got := leftNothing(tc.journal, ended); got != tc.want {
			t.Errorf("%s: leftNothing() = %t, want %t", name, got, tc.want)
		}
	}
}

func TestCrash_ReleasesTheLeaseOnRequest(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		g := NewWithT(t)
		s := newElection(t)
		s.subject.ReleaseLease = wanted
		s.renewLease(t, s.client, 0)
		a := s.injectKind(t, "crash-after-write")
		g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(http.StatusOK))
		g.Expect(s.patch(t, 0, "/things/thing-1")).To(BeZero())
		g.Eventually(func() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.occurrences) }, testTimeout).Should(Equal(1))
		if wanted {
			g.Eventually(s.leaseReleases, testTimeout).Should(HaveLen(1))
		}
		g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
		g.Expect(a.heal()).To(Succeed())
		if wanted {
			g.Expect(s.holder(t.Context())).To(BeEmpty())
		} else {
			g.Expect(s.leaseReleases()).To(BeEmpty())
			g.Expect(s.holder(t.Context())).To(Equal("host_1"))
		}
	}
}

// The paused leader lives, so the Lease has to expire.
func TestPause_ReleasesNoLease(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.subject.ReleaseLease = true
	s.renewLease(t, s.client, 0)
	a := s.injectKind(t, "leader-pause")
	code := s.patchInBackground(t)
	g.Eventually(code, testTimeout).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.processes[0].recordedActions, testTimeout).Should(ContainElement("paused"))
	g.Expect(s.holder(t.Context())).To(Equal("host_1"))
	s.setHolder(t)
	g.Eventually(s.processes[0].recordedActions, testTimeout).Should(ContainElement("resumed"))
	g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
	g.Expect(a.heal()).To(Succeed())
	g.Expect(s.leaseReleases()).To(BeEmpty())
}
