// SPDX-License-Identifier: Apache-2.0

package run

import (
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
)

func TestInject_RejectsPlans(t *testing.T) {
	s := newTestbed(t)
	rejects := func(plan Plan, says string) {
		_, err := s.newExecution().inject(t.Context(), steps, plan)
		s.Expect(err).To(MatchError(ContainSubstring(says)), plan.ID())
	}
	rejects(Plan{Fault: failedWrite.fault, Variant: "418"}, "418")
	rejects(Plan{Fault: "no-such-fault"}, `"no-such-fault"`)
	for id, says := range map[string]string{
		"s:watch-delay:WATCH:/things:3":             "there are 2",
		"s:failed-list-timeout:START:/things:0":     "there are 2",
		"s:external-crash:PUT:/{thing}:1":           "no external system",
		"s:external-error-500:PUT:/{thing}:1/store": "it never says that",
	} {
		id, store := strings.CutSuffix(id, "/store")
		if s.external = nil; store {
			s.addStore(http.StatusOK)
		}
		plan, err := ParsePlan(id)
		s.Expect(err).NotTo(HaveOccurred())
		rejects(plan, says)
	}
}

func TestWatchEvents_AreOfTheRunAndSoonAfterAStep(t *testing.T) {
	s := newStoppedTestbed(t)
	run := &execution{prover: s.Prover}
	s.watch(0, "/things", "")
	s.watch(1, "/things", "")
	h := &history.History{Aliases: map[string]string{"thing-1": "{thing}"}}
	sent := 0
	send := func(name string) {
		sent++
		s.sendEvent(name)
		for _, r := range s.replicas {
			s.Eventually(func() int { return len(r.proxy.Journal().Frames) }).Should(Equal(sent))
		}
	}
	send("thing-1-before")
	for _, names := range [][]string{{"thing-1-a", "other"}, {"other"}, {"thing-1-a", "thing-1-b"}} {
		s.stopped.Step(time.Minute)
		run.actionTimes = append(run.actionTimes, s.clock.Now())
		s.stopped.Step(time.Second)
		for _, name := range names {
			send(name)
		}
	}
	s.stopped.Step(time.Minute)
	run.actionTimes = append(run.actionTimes, s.clock.Now())
	s.stopped.Step(silenceFor)
	send("thing-1-late")
	s.Expect(run.watchEvents(h)).To(Equal([]watchEvent{{Path: "/things", Action: 1}, {Path: "/things", Action: 3}}))
}
