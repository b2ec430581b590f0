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
	watch, err := newClient().Get(p.URL() + "/things?watch=true")
	g.Expect(err).NotTo(HaveOccurred())
	defer watch.Body.Close()
	g.Expect(watch.Body.Read(make([]byte, 99))).To(Equal(len("event\n")))
	lease := askInBackground(t.Context(), p, http.MethodGet, "/lease", "")
	slow := askInBackground(t.Context(), p, http.MethodPut, "/slow", "")
	open := func(m Match) func() int { return func() int { return p.Open(m) } }
	g.Eventually(open(Match{}), eventually).Should(Equal(3))
	g.Expect(p.Open(Match{Query: map[string]string{"watch": "true"}})).To(Equal(1))
	g.Expect(p.Sever(Match{Pattern: regexp.MustCompile("^/(things|slow)")})).To(Equal(2))
	_, err = watch.Body.Read(make([]byte, 1))
	g.Expect(err).To(And(HaveOccurred(), Not(MatchError(io.EOF))), "it does not look like the stream's own end")
	var got answer
	g.Eventually(slow, eventually).Should(Receive(&got))
	g.Expect(got.Err).To(HaveOccurred(), "no answer is made up")
	g.Eventually(open(Match{}), eventually).Should(Equal(1))
	g.Consistently(lease, moment).ShouldNot(Receive(), "the others go on")
	g.Expect(p.Sever(Match{})).To(Equal(1))
	g.Eventually(lease, eventually).Should(Receive())
	g.Eventually(func() int { return p.Sever(Match{}) }, eventually).Should(BeZero())
}

// A request that is held before it is forwarded arrives late, although its client has gone.
func TestSever_SparesHeldRequests(t *testing.T) {
	g := NewWithT(t)
	s := startService(t)
	p := startProxy(t, Options{Upstream: s.URL})
	gate := NewGate(BeforeForward)
	p.Inject(Rule{Match: Match{Methods: []string{http.MethodPut}}, Fault: gate})
	lost := askInBackground(t.Context(), p, http.MethodPut, "/bucket", "late")
	held := wait(t, gate)
	g.Expect(p.Sever(Match{})).To(Equal(1))
	g.Consistently(s.requests, moment).Should(BeEmpty())
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
