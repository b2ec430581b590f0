package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
)

func TestWatchFault_DelaysEvents(t *testing.T) {
	g := NewWithT(t)
	n := newWatchSource(t)
	lines := n.watch(t, 0)
	a := n.injectID(t, "s:watch-delay:WATCH:/things:2")
	g.Expect(a.beginStep(t.Context(), 0)).To(Succeed())
	g.Expect(a.beginStep(t.Context(), 1)).To(Succeed())
	n.send(t, "early")
	g.Eventually(lines, testTimeout).Should(Receive(ContainSubstring("early")), "before the step")
	n.clock.Step(time.Second)
	g.Expect(a.beginStep(t.Context(), 2)).To(Succeed())
	g.Expect(a.ongoing).To(Equal(2), "at both replicas")
	n.send(t, "late")
	g.Eventually(func() bool { return a.injections[0].Happened() }, testTimeout).Should(BeTrue())
	g.Expect(lines).NotTo(Receive())
	n.waitUntilOver(t, a)
	g.Eventually(lines, testTimeout).Should(Receive(ContainSubstring("late")))
	f := healAndGetFault(t, a)
	g.Expect(f.Replica).To(Equal("one"))
	g.Expect(f.Detail).To(Equal("events of /things were late after step 2: ADDED late"))
	g.Expect(f.Ended.Sub(f.Began)).To(BeNumerically(">=", silenceFor))
}

func TestWatchFault_SkipsEvents(t *testing.T) {
	g := NewWithT(t)
	n := newWatchSource(t)
	lines := n.watch(t, 0)
	a := n.injectID(t, "s:watch-gap:WATCH:/things:1")
	g.Expect(a.beginStep(t.Context(), 0)).To(Succeed())
	g.Eventually(lines, testTimeout).Should(BeClosed())
	g.Expect(n.request(t, 0, http.MethodGet, "/things?watch=true&resourceVersion=5", "")).
		To(Equal(http.StatusTooManyRequests))
	n.clock.Step(silenceFor)
	g.Eventually(func(g Gomega) {
		g.Eventually(n.watch(t, 0), testTimeout).Should(Receive(ContainSubstring(`"code":410`)))
	}, testTimeout).Should(Succeed())
	g.Expect(n.request(t, 0, http.MethodGet, "/things", "")).To(Equal(http.StatusOK))
	n.waitUntilOver(t, a)
	f := healAndGetFault(t, a)
	g.Expect(f.Detail).To(Equal("events of /things were missed after step 1: it was listed again"))
}

func TestWatchFault_IsVoidWithoutAWatch(t *testing.T) {
	for _, kind := range []string{"watch-delay", "watch-gap"} {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			n := newWatchSource(t)
			a := n.injectID(t, "s:"+kind+":WATCH:/things:1")
			g.Expect(a.beginStep(t.Context(), 0)).To(Succeed())
			n.waitUntilOver(t, a)
			g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("no events of /things were"))
		})
	}
}

// A client that does not watch again is waited for only up to the limit.
func TestWatchFault_IsVoidWithoutANewWatch(t *testing.T) {
	g := NewWithT(t)
	n := newWatchSource(t)
	lines := n.watch(t, 0)
	a := n.injectID(t, "s:watch-gap:WATCH:/things:1")
	g.Expect(a.beginStep(t.Context(), 0)).To(Succeed())
	g.Eventually(lines, testTimeout).Should(BeClosed())
	n.waitUntilOver(t, a)
	g.Expect(healAndGetVoidReason(t, a)).To(Equal("no events of /things were missed after step 1"))
}

func TestInject_RejectsUnknownSteps(t *testing.T) {
	for _, id := range []string{"s:watch-delay:WATCH:/things:3", "s:failed-list-timeout:START:/things:0"} {
		p, err := ParsePlan(id)
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = newWatchSource(t).inject(t.Context(), twoActions, p, nil)
		g.Expect(err).To(MatchError(ContainSubstring("there are 2")))
	}
}

func TestWatchEvents_AreOfTheRunAndSoonAfterAStep(t *testing.T) {
	g := NewWithT(t)
	n := newWatchSource(t)
	run := &execution{prover: n.Prover}
	n.watch(t, 0)
	n.watch(t, 1)
	h := &history.History{Aliases: map[string]string{"thing-1": "{thing}"}}
	told := 0
	tell := func(name string) {
		told++
		n.send(t, name)
		for _, r := range n.replicas {
			g.Eventually(func() int { return len(r.proxy.Journal().Frames) }, testTimeout).Should(Equal(told))
		}
	}
	tell("thing-1-before")
	for _, names := range [][]string{{"thing-1-a", "other"}, {"other"}, {"thing-1-a", "thing-1-b"}} {
		n.clock.Step(time.Minute)
		run.actionTimes = append(run.actionTimes, n.clock.Now())
		n.clock.Step(time.Second)
		for _, name := range names {
			tell(name)
		}
	}
	n.clock.Step(time.Minute)
	run.actionTimes = append(run.actionTimes, n.clock.Now())
	n.clock.Step(silenceFor)
	tell("thing-1-late")
	g.Expect(run.watchEvents(h)).To(Equal([]watchEvent{{Path: "/things", Action: 1},
		{Path: "/things", Action: 3}}))
}
