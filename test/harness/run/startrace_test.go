package run

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
)

func TestStartRace(t *testing.T) {
	for variant, want := range map[string]int{"timeout": http.StatusOK, "403": http.StatusForbidden,
		"404": http.StatusNotFound} {
		t.Run(variant, func(t *testing.T) {
			g := NewWithT(t)
			n := newWatchSource(t)
			a := n.injectID(t, "s:failed-list-"+variant+":START:/things:1")
			g.Expect(a.beginStep(t.Context(), 0)).To(Succeed())
			for _, w := range n.processes {
				_, kills := w.counts()
				g.Expect(kills).To(Equal(1), "all of them")
			}
			answers := make(chan int, 1)
			go func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.replicas[0].proxy.URL()+"/things",
					strings.NewReader(""))
				if err != nil {
					return // no answer is told of
				}
				response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
				if err != nil {
					return
				}
				defer response.Body.Close()
				if _, err := io.Copy(io.Discard, response.Body); err == nil {
					answers <- response.StatusCode
				}
			}()
			if variant == variantTimeout {
				g.Consistently(answers, 50*time.Millisecond).ShouldNot(Receive())
			} else {
				g.Eventually(answers, testTimeout).Should(Receive(Equal(want)))
			}
			g.Eventually(func() bool { return a.injections[0].Happened() && n.clock.HasWaiters() }, testTimeout).Should(BeTrue())
			n.clock.Step(raceFor)
			if variant == variantTimeout {
				g.Eventually(answers, testTimeout).Should(Receive(Equal(want)))
			}
			g.Eventually(func() []history.Fault { a.mu.Lock(); defer a.mu.Unlock(); return a.occurrences }, testTimeout).
				Should(HaveLen(1))
			g.Expect(n.request(t, 0, http.MethodGet, "/things", "")).To(Equal(http.StatusOK), "it is over")
			g.Expect(a.heal()).To(Succeed(), "though the other has not asked")
			f := a.result()
			g.Expect(f.Happened).To(Equal(1))
			g.Expect(f.Replica).To(Equal("one"))
			g.Expect(f.Detail).To(ContainSubstring("GET /things met " + variant))
		})
	}
}

// A request of the process that was killed is not one of a start.
func TestStartRace_IsVoidWithoutRequests(t *testing.T) {
	g := NewWithT(t)
	n := newWatchSource(t)
	a := n.injectID(t, "s:failed-list-403:START:/things:2")
	g.Expect(n.request(t, 0, http.MethodGet, "/things", "")).To(Equal(http.StatusOK))
	g.Expect(a.beginStep(t.Context(), 0)).To(Succeed())
	g.Expect(a.beginStep(t.Context(), 2)).To(Succeed())
	g.Expect(healAndGetVoidReason(t, a)).To(ContainSubstring("did not ask for /things"))
}
