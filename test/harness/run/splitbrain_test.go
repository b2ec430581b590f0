package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

const unelected = "--elect=false"

// unelectedPlan is the plan in which a replica acts without being elected.
func unelectedPlan(t *testing.T) scenario.Plan {
	t.Helper()
	plan, err := scenario.ParsePlan("s:unelected-replica:BESIDE:all:1")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return plan
}

func TestSplitBrain_UnelectedReplicaActs(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.subject.Unelected = []string{unelected}
	s.subject.Contract.AnyReplica = []history.Resource{{Resource: "events"}}
	a := s.injectPlan(t, unelectedPlan(t))
	g.Expect(processNames(s)).To(Equal([]string{"one", "two", "three"}))
	g.Expect(s.processes[2].overrides.args).To(Equal([]string{unelected}))
	s.request(t, 2, http.MethodPatch, "/apis/example.com/v1/things/thing-1", "")
	f := healAndGetFault(t, a)
	g.Expect(f.Replica).To(Equal("three"))
	g.Expect(f.Unelected).To(BeTrue(), "its external calls are the fault's doing")
	g.Expect(f.Detail).To(Equal("it acted without being elected: it sent 1 writes, of which 0 were refused"))
	g.Expect(processNames(s)).To(Equal([]string{"one", "two"}), "it is there for one run")
	g.Expect(s.processes[2].recordedActions()).To(Equal([]string{"asked by terminated", "closed"}))
	lives := s.historySince(time.Time{}).Replicas
	g.Expect(lives).To(HaveLen(3))
	g.Expect(lives[0]).To(HaveField("Name", "three"))
	g.Expect(lives[0].Asked).NotTo(BeZero())
	g.Expect(lives[0].Build).To(ContainSubstring(unelected))
}

func TestSplitBrain_IsVoidWithoutWrites(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.subject.Unelected = []string{unelected}
	s.subject.Contract.AnyReplica = []history.Resource{{Resource: "events"}}
	a := s.injectPlan(t, unelectedPlan(t))
	s.request(t, 2, http.MethodGet, "/apis/example.com/v1/things/thing-1", "")
	s.request(t, 2, http.MethodPost, "/api/v1/namespaces/ns/events", "")
	s.request(t, 2, http.MethodPut, leasePath, "")
	s.request(t, 2, http.MethodPost, "/metrics", "")
	s.request(t, 0, http.MethodPatch, "/apis/example.com/v1/things/thing-1", "")
	g.Expect(healAndGetVoidReason(t, a)).
		To(ContainSubstring("replica three, which was not elected, tried to change nothing"))
}

func TestSplitBrain_NeedsUnelectedArguments(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	_, err := s.inject(t.Context(), scenario.Scenario{}, unelectedPlan(t), thing)
	g.Expect(err).To(MatchError(ContainSubstring("does not say how a replica acts without being elected")))
	g.Expect(processNames(s)).To(Equal([]string{"one", "two"}))
}
