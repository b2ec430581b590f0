// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// beLost matches a client's error for a connection that ended without an answer.
var beLost = Or(MatchError(io.EOF), MatchError(syscall.ECONNRESET), MatchError(io.ErrUnexpectedEOF))

func TestDelay(t *testing.T) {
	for _, tc := range []struct {
		at      Point
		carried []string // by the upstream while the client waits
	}{
		{BeforeForward, nil},
		{AfterAnswer, []string{"POST / body"}},
	} {
		t.Run("at "+string(tc.at), func(t *testing.T) {
			g := NewWithT(t)
			clock := clocktesting.NewFakeClock(time.Now())
			s := startService(t)
			p := startProxy(t, Options{Upstream: s.URL, Clock: clock})
			injection := p.Inject(Rule{Fault: Delay{At: tc.at, For: time.Hour}})
			answers := askInBackground(t.Context(), p, http.MethodPost, "/", "body")
			g.Eventually(injection.Count, eventually).Should(Equal(1))
			g.Eventually(clock.HasWaiters, eventually).Should(BeTrue())
			clock.Step(time.Hour - 1)
			g.Consistently(answers, moment).ShouldNot(Receive())
			g.Expect(s.requests()).To(Equal(tc.carried))
			clock.Step(1)
			g.Eventually(answers, eventually).Should(Receive(HaveField("Body", "done")))
			g.Expect(s.requests()).To(Equal([]string{"POST / body"}))
			g.Expect(p.Journal().Requests[0].Rule).To(Equal(injection.rule.Name))
		})
	}
}

// Requests delayed by a fault continue when it is healed.
func TestHeal_LetsRequestsGo(t *testing.T) {
	for _, fault := range []Fault{Delay{For: time.Hour}, NewGate(BeforeForward), NewGate(AfterAnswer)} {
		t.Run(fmt.Sprintf("%T", fault), func(t *testing.T) {
			g := NewWithT(t)
			p := startProxy(t, Options{Upstream: startService(t).URL})
			injection := p.Inject(Rule{Fault: fault})
			answers := askInBackground(t.Context(), p, http.MethodGet, "/", "")
			g.Eventually(injection.Count, eventually).Should(Equal(1))
			injection.Heal()
			g.Eventually(answers, eventually).Should(Receive(HaveField("Body", "done")))
		})
	}
}

func TestDelay_DropsRequestsOfClosedConnections(t *testing.T) {
	g := NewWithT(t)
	s := startService(t)
	p := startProxy(t, Options{Upstream: s.URL})
	injection := p.Inject(Rule{Match: Match{To: 1}, Fault: Delay{For: time.Hour}})
	ctx, leave := context.WithCancel(t.Context())
	answers := askInBackground(ctx, p, http.MethodPost, "/", "body")
	g.Eventually(injection.Count, eventually).Should(Equal(1))
	leave()
	g.Eventually(answers, eventually).Should(Receive(HaveField("Err", MatchError(context.Canceled))))
	g.Eventually(func() time.Time { return p.Journal().Requests[0].Done }, eventually).ShouldNot(BeZero())
	g.Expect(ask(t.Context(), p, http.MethodPost, "/second", "").Status).To(Equal(200))
	g.Expect(s.requests()).To(Equal([]string{"POST /second"}))
	g.Expect(p.Journal().Requests[0].Forwarded).To(BeZero())
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		at      Point
		carried []string
		status  int
	}{
		{BeforeForward, nil, 0},
		{AfterAnswer, []string{"POST / body"}, 200},
	} {
		t.Run("at "+string(tc.at), func(t *testing.T) {
			g := NewWithT(t)
			s := startService(t)
			p := startProxy(t, Options{Upstream: s.URL})
			injection := p.Inject(Rule{Match: Match{To: 1}, Fault: Cut{At: tc.at}})
			g.Expect(ask(t.Context(), p, http.MethodPost, "/", "body").Err).To(beLost)
			g.Expect(injection.Count()).To(Equal(1))
			g.Expect(s.requests()).To(Equal(tc.carried))
			noted := p.Journal().Requests[0]
			g.Expect(noted.Rule).To(Equal(injection.rule.Name))
			g.Expect(noted.Status).To(Equal(tc.status))
			g.Expect(noted.Forwarded.IsZero()).To(Equal(tc.status == 0))
			g.Expect(noted.Delivered).To(BeZero())
			g.Expect(ask(t.Context(), p, http.MethodPost, "/", "body").Status).To(Equal(200), "the next one passes")
		})
	}
}

func TestAnswerInPlaceOfTheUpstream(t *testing.T) {
	g := NewWithT(t)
	s := startService(t)
	p := startProxy(t, Options{Upstream: s.URL})
	redirect := Answer{Status: http.StatusFound, Header: http.Header{"Location": {"http://192.0.2.1/"}}}
	moved := Answer{Status: http.StatusMovedPermanently, Header: http.Header{"X-Amz-Bucket-Region": {"eu-west-1"}}}
	noXML := Answer{Body: "<html>sign in</html>"}
	for _, want := range []Answer{
		redirect, moved, noXML, {Status: 429, Header: http.Header{"Retry-After": {"7"}}}, {Status: 500},
		S3Error(503, "SlowDown"),
	} {
		injection := p.Inject(Rule{Fault: want})
		got := ask(t.Context(), p, http.MethodPut, "/bucket", "body")
		g.Expect(got.Err).NotTo(HaveOccurred())
		g.Expect(got.Status).To(Equal(want.status()))
		g.Expect(got.Body).To(Equal(want.Body))
		for name := range want.Header {
			g.Expect(got.Header.Get(name)).To(Equal(want.Header.Get(name)))
		}
		g.Expect(injection.Count()).To(Equal(1))
		injection.Heal()
	}
	g.Expect(s.requests()).To(BeEmpty())
	g.Expect(ask(t.Context(), p, http.MethodPut, "/bucket", "body").Status).To(Equal(200))
	g.Expect(s.requests()).To(Equal([]string{"PUT /bucket body"}))
}

func TestBlackHole(t *testing.T) {
	g := NewWithT(t)
	s := startService(t)
	p := startProxy(t, Options{Upstream: s.URL})
	injection := p.Inject(Rule{Match: Match{Path: "/hole"}, Fault: BlackHole{}})
	leaves, leave := context.WithCancel(t.Context())
	left := askInBackground(leaves, p, http.MethodPut, "/hole", strings.Repeat("x", 1<<20))
	stays := askInBackground(t.Context(), p, http.MethodGet, "/hole", "")
	g.Eventually(injection.Count, eventually).Should(Equal(2))
	g.Consistently(stays, moment).ShouldNot(Receive())
	g.Expect(ask(t.Context(), p, http.MethodGet, "/other", "").Status).To(Equal(200), "others are answered meanwhile")
	leave()
	g.Eventually(left, eventually).Should(Receive(HaveField("Err", MatchError(context.Canceled))))
	injection.Heal()
	g.Eventually(stays, eventually).Should(Receive(HaveField("Err", beLost)))
	g.Expect(s.requests()).To(Equal([]string{"GET /other"}))
	g.Expect(ask(t.Context(), p, http.MethodGet, "/hole", "").Status).To(Equal(200), "after Heal")
}
