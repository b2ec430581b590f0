package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestUpgrade_ReplacesReplicasInTurn(t *testing.T) {
	for name, tc := range map[string]struct {
		previous string
		binaries []string // of those that are started
		left     []string
		detail   string
	}{
		"SameBuild": {"", []string{"", ""}, []string{"three", "four"}, "of the same build"},
		"PreviousBuild": {"old", []string{"old", "old", "", ""}, []string{"five", "six"},
			"from the previous build to this one"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			s.subject.Previous = tc.previous
			a := s.injectKind(t, "upgrade")
			leader := len(s.processes) - 2 // those of the previous build have no names of their own
			g.Expect(processNames(s)).To(HaveLen(2))
			g.Expect(s.patchBy(t, s.running()[0])).To(Equal(http.StatusOK))
			g.Expect(s.patchBy(t, s.running()[0])).To(Equal(http.StatusOK))
			f := healAndGetFault(t, a)
			g.Expect(f.Detail).To(HavePrefix("rolled over at PATCH /things/thing-1 by " + s.processes[leader].name))
			g.Expect(f.Detail).To(HaveSuffix(tc.detail))
			g.Expect(processNames(s)).To(Equal(tc.left))
			var binaries []string
			for _, w := range s.processes[2:] {
				binaries = append(binaries, w.overrides.binary)
			}
			g.Expect(binaries).To(Equal(tc.binaries))
			lives := s.historySince(time.Time{}).Replicas
			g.Expect(lives).To(HaveLen(len(s.processes)))
			for _, life := range lives[:len(lives)-2] {
				g.Expect(life.Asked).NotTo(BeZero(), life.Name)
				g.Expect(life.Ended).NotTo(BeZero(), life.Name)
			}
			g.Expect(s.lifetimeOf("three").Started).To(BeTemporally("<", s.lifetimeOf("one").Asked),
				"the new one is there before the old one goes")
		})
	}
}

func TestUpgrade_EndsWithThisBuild(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.subject.Previous = "old"
	a := s.injectKind(t, "upgrade")
	g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("no PATCH"))
	g.Expect(processNames(s)).To(Equal([]string{"five", "six"}))
	g.Expect(s.processes[5].overrides.binary).To(BeEmpty())
}
