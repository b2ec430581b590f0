// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
)

// wait returns the next request at the gate.
func wait(t *testing.T, gate *Gate) *HeldRequest {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	held, err := gate.Wait(ctx)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return held
}

func TestGate(t *testing.T) {
	for _, tc := range []struct {
		at      Point
		carried []string // by the upstream while the request is held
	}{
		{BeforeForward, nil},
		{AfterAnswer, []string{"PUT /bucket body"}},
	} {
		t.Run("at "+string(tc.at), func(t *testing.T) {
			g := NewWithT(t)
			s := startService(t)
			p := startProxy(t, Options{Upstream: s.URL})
			gate := NewGate(tc.at)
			injection := p.Inject(Rule{Match: Match{Methods: []string{http.MethodPut}}, Fault: gate})
			answers := askInBackground(t.Context(), p, http.MethodPut, "/bucket", "body")
			held := wait(t, gate)
			g.Expect(held.Request.String()).To(Equal("PUT /bucket"))
			g.Expect(injection.Count()).To(Equal(1))
			g.Expect(ask(t.Context(), p, http.MethodGet, "/other", "").Status).To(Equal(200), "others pass meanwhile")
			g.Consistently(answers, moment).ShouldNot(Receive())
			g.Expect(s.requests()).To(Equal(append(tc.carried, "GET /other")))
			held.Release()
			held.Release()
			held.Cut() // too late
			g.Eventually(answers, eventually).Should(Receive(HaveField("Body", "done")))
			g.Expect(s.requests()).To(ConsistOf("PUT /bucket body", "GET /other"))

			answers = askInBackground(t.Context(), p, http.MethodPut, "/bucket", "cut")
			wait(t, gate).Cut()
			g.Eventually(answers, eventually).Should(Receive(HaveField("Err", beLost)))
			carried := ContainElement("PUT /bucket cut")
			if tc.carried == nil {
				carried = Not(carried)
			}
			g.Expect(s.requests()).To(carried)
		})
	}
}

func TestGate_ReleasesOneByOne(t *testing.T) {
	g := NewWithT(t)
	s := startService(t)
	p := startProxy(t, Options{Upstream: s.URL})
	gate := NewGate(BeforeForward)
	injection := p.Inject(Rule{Fault: gate})
	answers := map[string]<-chan answer{}
	for _, path := range []string{"/a", "/b", "/c"} {
		answers[path] = askInBackground(t.Context(), p, http.MethodGet, path, "")
	}
	first := wait(t, gate)
	second := wait(t, gate)
	g.Expect(first.Request.Path).NotTo(Equal(second.Request.Path))
	second.Release()
	g.Eventually(answers[second.Request.Path], eventually).Should(Receive(HaveField("Body", "done")))
	g.Expect(s.requests()).To(Equal([]string{"GET " + second.Request.Path}))
	g.Eventually(injection.Count, eventually).Should(Equal(3))

	injection.Heal()
	g.Eventually(s.requests, eventually).Should(ConsistOf("GET /a", "GET /b", "GET /c"))
	g.Eventually(answers[first.Request.Path], eventually).Should(Receive(HaveField("Body", "done")))
}

func TestGate_HealDoesNotReleaseCutRequests(t *testing.T) {
	for range 50 { // either may be received first
		gate, held, healed := NewGate(BeforeForward), &HeldRequest{decided: make(chan error, 1)}, make(chan struct{})
		held.Cut()
		close(healed)
		NewWithT(t).Expect(gate.hold(held, healed)).To(MatchError(errCut))
	}
}
