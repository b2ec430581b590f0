// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
)

// startStream starts an upstream that sends one event at once and no more. A request for /slow gets
// no response.
func startStream(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			_, _ = io.WriteString(w, "event\n") // the client may have closed the connection
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	return s
}

func TestSever_CutsRequestsInFlight(t *testing.T) {
	g := NewWithT(t)
	p := startProxy(t, Options{Upstream: startStream(t).URL})
	watch := askInBackground(t.Context(), p, http.MethodGet, "/things?watch=true", "")
	lease := askInBackground(t.Context(), p, http.MethodGet, "/lease", "")
	slow := askInBackground(t.Context(), p, http.MethodPut, "/slow", "")
	open := func(m Match) func() int { return func() int { return p.Open(m) } }
	g.Eventually(open(Match{}), eventually).Should(Equal(3))
	g.Eventually(func() int { return len(p.Journal().answered()) }, eventually).Should(Equal(2), "the stream has begun")
	g.Expect(p.Open(Match{Query: map[string]string{"watch": "true"}})).To(Equal(1))
	g.Expect(p.Sever(Match{Pattern: regexp.MustCompile("^/(things|slow)")})).To(Equal(2))
	var got answer
	g.Eventually(watch, eventually).Should(Receive(&got))
	g.Expect(got.Body).To(Equal("event\n"))
	g.Expect(got.Err).To(HaveOccurred(), "it does not look like the stream's own end")
	g.Eventually(slow, eventually).Should(Receive(&got))
	g.Expect(got.Err).To(HaveOccurred(), "no answer is made up")
	g.Eventually(open(Match{}), eventually).Should(Equal(1))
	g.Consistently(lease, moment).ShouldNot(Receive(), "the others go on")
	g.Expect(p.Sever(Match{})).To(Equal(1))
	g.Eventually(lease, eventually).Should(Receive())
	g.Expect(p.Sever(Match{})).To(BeZero())
}

// answered are the requests that the upstream has answered.
func (j Journal) answered() []ProxiedRequest {
	var all []ProxiedRequest
	for _, r := range j.Requests {
		if !r.Answered.IsZero() {
			all = append(all, r)
		}
	}
	return all
}

func TestSever_SparesHeldRequests(t *testing.T) {
	g := NewWithT(t)
	s := startService(t)
	p := startProxy(t, Options{Upstream: s.URL})
	gate := NewGate(BeforeForward)
	p.Inject(Rule{Match: Match{Methods: []string{http.MethodPut}}, Fault: gate})
	lost := askInBackground(t.Context(), p, http.MethodPut, "/bucket", "late")
	held := wait(t, gate)
	g.Expect(p.Sever(Match{})).To(Equal(1))
	g.Expect(s.requests()).To(BeEmpty())
	held.Release()
	g.Eventually(s.requests, eventually).Should(Equal([]string{"PUT /bucket late"}))
	g.Eventually(lost, eventually).Should(Receive())
}

func TestSever_WakesRequestsHeldAfterTheAnswer(t *testing.T) {
	g := NewWithT(t)
	s := startService(t)
	p := startProxy(t, Options{Upstream: s.URL})
	gate := NewGate(AfterAnswer)
	p.Inject(Rule{Fault: gate})
	lost := askInBackground(t.Context(), p, http.MethodPut, "/bucket", "stored")
	held := wait(t, gate)
	p.Sever(Match{})
	held.Release()
	var got answer
	g.Eventually(lost, eventually).Should(Receive(&got))
	g.Expect(got.Body).NotTo(Equal("done"), "the answer was lost")
	g.Expect(s.requests()).To(Equal([]string{"PUT /bucket stored"}))
}
