package run

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
)

func TestReplica_RestartsItsProcess(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	w, r := s.processes[0], s.replicas[0]
	r.kill()
	g.Eventually(func() int { starts, _ := w.counts(); return starts }, testTimeout).Should(Equal(2))
	g.Eventually(r.lifetimes, testTimeout).Should(HaveLen(2))
	w.exits <- 1 // by itself
	g.Eventually(r.lifetimes, testTimeout).Should(HaveLen(3))
	lives := r.lifetimes()
	g.Expect(lives[0].Killed).To(BeTrue())
	g.Expect(lives[1].Killed).To(BeFalse())
	g.Expect(lives[1].Exit).To(Equal(1))
	g.Expect(lives[2].Ended).To(BeZero())
	// Of both workers, without the one that had been killed by then.
	g.Expect(s.historySince(lives[1].Started).Replicas).To(HaveLen(3))
	g.Expect(s.historySince(lives[0].Started).Replicas).To(HaveLen(4))
}
