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

// beside is the plan in which somebody acts without being elected.
func beside(t *testing.T) scenario.Plan {
	t.Helper()
	plan, err := scenario.ParsePlan("s:P16-unelected:BESIDE:all:1")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return plan
}

func names(s *stage) []string {
	var all []string
	for _, r := range s.present() {
		all = append(all, r.process.Name())
	}
	return all
}

func TestOneActsWithoutBeingElected(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.subject.Unelected = []string{unelected}
	s.subject.Promises.AnyReplica = []history.Resource{{Resource: "events"}}
	a := s.setsPlan(t, beside(t))
	g.Expect(names(s)).To(Equal([]string{"one", "two", "three"}))
	g.Expect(s.workers[2].unlike.args).To(Equal([]string{unelected}))
	s.ask(t, 2, http.MethodPatch, "/apis/example.com/v1/things/thing-1", "")
	f := happened(t, a)
	g.Expect(f.Replica).To(Equal("three"))
	g.Expect(f.Unelected).To(BeTrue(), "its external calls are the fault's doing")
	g.Expect(f.Detail).To(Equal("it acted without being elected: it sent 1 writes, of which 0 were refused"))
	g.Expect(names(s)).To(Equal([]string{"one", "two"}), "it is there for one run")
	g.Expect(s.workers[2].heard()).To(Equal([]string{"asked by terminated"}))
	lives := s.told(time.Time{}).Replicas
	g.Expect(lives).To(HaveLen(3))
	g.Expect(lives[0]).To(HaveField("Name", "three"))
	g.Expect(lives[0].Asked).NotTo(BeZero())
	g.Expect(lives[0].Build).To(ContainSubstring(unelected))
}

func TestOneThatDoesNotActIsNoTwin(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.subject.Unelected = []string{unelected}
	s.subject.Promises.AnyReplica = []history.Resource{{Resource: "events"}}
	a := s.setsPlan(t, beside(t))
	s.ask(t, 2, http.MethodGet, "/apis/example.com/v1/things/thing-1", "")
	s.ask(t, 2, http.MethodPost, "/api/v1/namespaces/ns/events", "")
	s.ask(t, 2, http.MethodPut, leasePath, "")
	s.ask(t, 2, http.MethodPost, "/metrics", "")
	s.ask(t, 0, http.MethodPatch, "/apis/example.com/v1/things/thing-1", "")
	g.Expect(void(t, a)).To(ContainSubstring("replica three, which was not elected, tried to change nothing"))
}

func TestWhoCannotActWithoutBeingElectedIsNotTried(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	_, err := s.arm(t.Context(), scenario.Scenario{}, beside(t), thing)
	g.Expect(err).To(MatchError(ContainSubstring("does not say how a replica acts without being elected")))
	g.Expect(names(s)).To(Equal([]string{"one", "two"}))
}

func TestReplicasAreReplacedOneAfterAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		previous string
		binaries []string // of those that are started
		left     []string
		detail   string
	}{
		"SameBuild":     {"", []string{"", ""}, []string{"three", "four"}, "of the same build"},
		"PreviousBuild": {"old", []string{"old", "old", "", ""}, []string{"five", "six"}, "from the previous build to this one"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			s.subject.Previous = tc.previous
			a := s.sets(t, "P16-upgrade")
			leader := len(s.workers) - 2 // those of the previous build have no names of their own
			g.Expect(names(s)).To(HaveLen(2))
			g.Expect(s.patchBy(t, s.present()[0])).To(Equal(http.StatusOK))
			g.Expect(s.patchBy(t, s.present()[0])).To(Equal(http.StatusOK))
			f := happened(t, a)
			g.Expect(f.Detail).To(HavePrefix("rolled over at PATCH /things/thing-1 by " + s.workers[leader].name))
			g.Expect(f.Detail).To(HaveSuffix(tc.detail))
			g.Expect(names(s)).To(Equal(tc.left))
			var binaries []string
			for _, w := range s.workers[2:] {
				binaries = append(binaries, w.unlike.binary)
			}
			g.Expect(binaries).To(Equal(tc.binaries))
			lives := s.told(time.Time{}).Replicas
			g.Expect(lives).To(HaveLen(len(s.workers)))
			for _, life := range lives[:len(lives)-2] {
				g.Expect(life.Asked).NotTo(BeZero(), life.Name)
				g.Expect(life.Ended).NotTo(BeZero(), life.Name)
			}
			g.Expect(s.lived("three").Started).To(BeTemporally("<", s.lived("one").Asked), "the new one is there before the old one goes")
		})
	}
}

func TestWithoutAnUpgradeThisBuildRunsInTheEnd(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.subject.Previous = "old"
	a := s.sets(t, "P16-upgrade")
	g.Expect(void(t, a)).To(ContainSubstring("no PATCH"))
	g.Expect(names(s)).To(Equal([]string{"five", "six"}))
	g.Expect(s.workers[5].unlike.binary).To(BeEmpty())
}

// lived is the first process of a replica.
func (s *stage) lived(name string) history.Replica {
	for _, life := range s.told(time.Time{}).Replicas {
		if life.Name == name {
			return life
		}
	}
	return history.Replica{}
}
