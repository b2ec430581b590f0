package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// asked are the processes of a replica that were asked to stop.
func asked(s *stage, worker int) int {
	n := 0
	for _, life := range s.replicas[worker].lived() {
		if !life.Asked.IsZero() && !life.Ended.IsZero() && !life.Killed {
			n++
		}
	}
	return n
}

func TestAReplicaIsAskedToStop(t *testing.T) {
	for kind, tc := range map[string]struct {
		worker int
		detail string
	}{
		"P14":         {0, "asked to stop at PATCH /things/thing-1"},
		"P14-standby": {1, "asked to stop, without leading, at PATCH /things/thing-1"},
	} {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			a := s.sets(t, kind)
			g.Eventually(s.comes(t), eventually).Should(Receive(Equal(http.StatusOK)))
			f := happened(t, a)
			g.Expect(f.Replica).To(Equal([]string{"one", "two"}[tc.worker]))
			g.Expect(f.Detail).To(Equal(tc.detail))
			g.Expect(s.workers[tc.worker].heard()).To(Equal([]string{"asked by terminated"}))
			g.Expect(s.workers[1-tc.worker].heard()).To(BeEmpty())
			g.Expect(asked(s, tc.worker)).To(Equal(1))
			g.Eventually(func() int { starts, _ := s.workers[tc.worker].counts(); return starts }, eventually).Should(Equal(2), "as a kubelet does")
		})
	}
}

func TestAReplicaIsAskedToStopAtItsStart(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.sets(t, "P14-start")
	g.Eventually(s.comes(t), eventually).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(func() int { starts, _ := s.workers[1].counts(); return starts }, eventually).Should(Equal(2))
	g.Expect(s.workers[1].heard()).To(BeEmpty(), "it has asked for nothing yet")
	s.ask(t, 1, http.MethodGet, "/api", "")
	f := happened(t, a)
	g.Expect(f.Replica).To(Equal("two"))
	g.Expect(f.Detail).To(Equal("asked to stop at its first request, GET /api"))
	g.Expect(s.workers[1].heard()).To(Equal([]string{"asked by terminated"}))
	g.Expect(s.workers[0].heard()).To(BeEmpty())
}

func TestAReplicaThatStartsAndAsksForNothingIsNoFault(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.sets(t, "P14-start")
	a.limit = 200 * time.Millisecond
	g.Eventually(s.comes(t), eventually).Should(Receive())
	g.Expect(a.resting(t.Context())).To(Succeed())
	g.Expect(void(t, a)).To(ContainSubstring("asked for nothing within 200ms"))
}

func TestAReplicaIsAskedToStopWhileItWaits(t *testing.T) {
	for name, answered := range map[string]bool{"Happened": true, "NotAnswered": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			c := s.stopsTime()
			a := s.sets(t, "P14-slow")
			answer := s.comes(t)
			g.Eventually(c.HasWaiters, eventually).Should(BeTrue())
			g.Expect(s.workers[0].heard()).To(Equal([]string{"asked by terminated"}))
			g.Expect(answer).NotTo(Receive())
			g.Expect(s.asked).To(HaveLen(1), "the second has not arrived")
			if !answered {
				s.upstream.Close()
			}
			passes(t, c, slowness)
			if !answered {
				g.Expect(a.resting(t.Context())).To(Succeed())
				g.Expect(void(t, a)).To(ContainSubstring("was not answered"))
				return
			}
			g.Eventually(answer, eventually).Should(Receive(Equal(http.StatusOK)))
			g.Expect(happened(t, a).Detail).To(ContainSubstring("which took 5s and was answered 200"))
		})
	}
}

func TestAReplicaThatDoesNotStopIsEndedAndNotExcused(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.subject.Promises.Limits.Grace.Duration = 100 * time.Millisecond
	s.workers[0].deaf = true
	a := s.sets(t, "P14")
	g.Eventually(s.comes(t), eventually).Should(Receive())
	happened(t, a)
	life := s.replicas[0].lived()[0]
	g.Expect(life.Killed).To(BeFalse(), "it had its chance")
	g.Expect(life.Ended.Sub(life.Asked)).To(BeNumerically(">", 100*time.Millisecond))
	_, kills := s.workers[0].counts()
	g.Expect(kills).To(BeNumerically(">=", 1))
}
