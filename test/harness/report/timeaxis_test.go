// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A burst of a few milliseconds in a run of half a minute is visible, and the order is kept.
func TestTimeAxisStretchesBursts(t *testing.T) {
	g := NewWithT(t)
	var burst []time.Time
	for i := range 20 {
		burst = append(burst, at(10_000+i))
	}
	s := newTimeAxis(at(0), at(30_000), burst, 100, 1100)
	g.Expect(s.x(at(0))).To(Equal(100.0))
	g.Expect(s.x(at(30_000))).To(Equal(1100.0))
	for i := 1; i < len(burst); i++ {
		g.Expect(s.x(burst[i])-s.x(burst[i-1])).To(BeNumerically(">", 20), "two writes of a burst")
	}
	last := 0.0
	for ms := 0; ms <= 30_000; ms += 7 {
		x := s.x(at(ms))
		g.Expect(x).To(BeNumerically(">=", last))
		last = x
	}
	g.Expect(s.x(at(20_000))-s.x(at(15_000))).To(BeNumerically(">", 40), "there is time between them")
}

func TestTimeAxisOfNothing(t *testing.T) {
	g := NewWithT(t)
	s := newTimeAxis(at(5), at(5), nil, 10, 20)
	for _, ms := range []int{0, 5, 9} {
		g.Expect(s.x(at(ms))).To(Equal(10.0))
	}
	s = newTimeAxis(at(0), at(10), []time.Time{at(-5), at(99)}, 10, 20)
	g.Expect(s.x(at(-5))).To(Equal(10.0), "what lies outside is at the end")
	g.Expect(s.x(at(99))).To(Equal(20.0))
}
