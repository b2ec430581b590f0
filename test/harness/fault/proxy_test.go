// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestProxyChangesNothing(t *testing.T) {
	g := NewWithT(t)
	type seen struct {
		Method, URI, Host, Body string
		Header                  http.Header
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(seen{r.Method, r.RequestURI, r.Host, string(body), r.Header})
	}))
	defer upstream.Close()
	p := startProxy(t, Options{Upstream: upstream.URL})
	const uri = "/bucket/a%2Fb%20c?list-type=2&x=%3B;y&z"
	request, err := http.NewRequestWithContext(t.Context(), "PURGE", p.URL()+uri, strings.NewReader("body"))
	g.Expect(err).NotTo(HaveOccurred())
	request.Host = "bucket.example.com"
	request.Header.Set("Authorization", "kept")
	request.Header.Set("User-Agent", "me")
	request.Header.Set("X-Forwarded-For", "them")
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true} // else it adds Accept-Encoding
	response, err := transport.RoundTrip(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	var got seen
	g.Expect(json.NewDecoder(response.Body).Decode(&got)).To(Succeed())
	g.Expect(got).To(Equal(seen{"PURGE", uri, "bucket.example.com", "body", http.Header{
		"Authorization": {"kept"}, "User-Agent": {"me"}, "Content-Length": {"4"},
		"X-Forwarded-For": {"them"},
		"Connection":      {"close"}, // the proxy's own with the upstream
	}}))
	g.Expect(response.StatusCode).To(Equal(http.StatusAccepted))
	g.Expect(response.Header.Get("X-Answer")).To(Equal("yes"))
}

// What has a known length would wait in a buffer otherwise.
func TestProxyPassesEveryPartAtOnce(t *testing.T) {
	g := NewWithT(t)
	read := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "1")
		_ = http.NewResponseController(w).Flush() // the reader detects errors
		select {
		case <-read:
			_, _ = io.WriteString(w, "2")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(upstream.Close)
	response, err := newClient().Get(startProxy(t, Options{Upstream: upstream.URL}).URL())
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	g.Expect(response.Body.Read(make([]byte, 2))).To(Equal(1))
	close(read)
	g.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo("2"))
}

// A URL may carry the signature of its sender.
func TestJournal_HidesSignaturesAndSelects(t *testing.T) {
	g := NewWithT(t)
	p := startProxy(t, Options{Upstream: startService(t).URL})
	for _, request := range [][2]string{{http.MethodPut, "/bucket?tagging="}, {http.MethodPut, "/bucket/a%20b"},
		{http.MethodGet, "/bucket?tagging=&X-Amz-Signature=abc&X-Amz-Credential=key"}} {
		g.Expect(ask(t.Context(), p, request[0], request[1], "").Status).To(Equal(200))
	}
	journal := p.Journal()
	g.Expect(journal.Mutating()).To(HaveExactElements(HaveField("Path", "/bucket"), HaveField("Path", "/bucket/a b")))
	tagging := Match{Query: map[string]string{"tagging": ""}}
	g.Expect(journal.Matching(tagging)).To(HaveLen(2))
	tagging.From = 2
	g.Expect(journal.Matching(tagging)).To(ConsistOf(HaveField("Query", SatisfyAll(
		HaveKeyWithValue("X-Amz-Signature", []string{Redacted}), HaveKeyWithValue("X-Amz-Credential", []string{Redacted})))))
}

func TestJournalHasConnectionsWithoutARequest(t *testing.T) {
	for name, speaksTLS := range map[string]bool{"plain HTTP": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := startProxy(t, Options{Upstream: startService(t).URL, TLS: speaksTLS})
			g.Expect(p.Journal().Connections).To(BeEmpty())
			silent, err := net.Dial("tcp", p.listener.Addr().String())
			g.Expect(err).NotTo(HaveOccurred())
			g.Eventually(func() []Connection { return p.Journal().Connections }, eventually).Should(HaveLen(1))
			talks, err := net.Dial("tcp", p.listener.Addr().String())
			g.Expect(err).NotTo(HaveOccurred())
			_, err = talks.Write([]byte("GET"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Eventually(func() []Connection { return p.Journal().Connections }, eventually).Should(
				ContainElement(HaveField("Received", BeEquivalentTo(3))))

			g.Expect(silent.Close()).To(Succeed())
			g.Expect(talks.Close()).To(Succeed())
			g.Eventually(func(g Gomega) {
				connections := p.Journal().Connections
				g.Expect(connections).To(HaveLen(2))
				for i, want := range []int64{0, 3} {
					g.Expect(connections[i].Received).To(Equal(want))
					g.Expect(connections[i].Closed).NotTo(BeZero())
				}
			}, eventually).Should(Succeed())
			g.Expect(p.Journal().Requests).To(BeEmpty())
		})
	}
}

func TestProxy_UnreachableUpstream(t *testing.T) {
	g := NewWithT(t)
	gone := startService(t)
	gone.Close()
	p := startProxy(t, Options{Upstream: gone.URL})
	injection := p.Inject(Rule{Fault: Cut{At: AfterAnswer}})
	g.Expect(ask(t.Context(), p, http.MethodGet, "/", "").Status).To(Equal(http.StatusBadGateway))
	g.Expect(injection.Happened()).To(BeFalse(), "there was no answer that could be lost")
	request := p.Journal().Requests[0]
	g.Expect(request.Error).To(ContainSubstring("connection refused"))
	g.Expect(request.Status).To(BeZero())
	g.Expect(request.Rule).To(BeEmpty())
}

func TestNewProxy_RejectsBadOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"no upstream":    {},
		"no scheme":      {Upstream: "127.0.0.1:80"},
		"another scheme": {Upstream: "ftp://127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewProxy(o)
			NewWithT(t).Expect(err).To(MatchError(HavePrefix("starting a fault proxy: ")))
		})
	}
}

// TestProxy_CloseEndsHeldRequests has a client for each fault that never ends by itself.
func TestProxy_CloseEndsHeldRequests(t *testing.T) {
	for _, tc := range []struct {
		fault   Fault
		carried int // by the upstream before
	}{
		{BlackHole{}, 0},
		{Delay{For: time.Hour}, 0}, {Delay{At: AfterAnswer, For: time.Hour}, 1},
		{NewGate(BeforeForward), 0}, {NewGate(AfterAnswer), 1},
	} {
		t.Run(fmt.Sprintf("%T", tc.fault), func(t *testing.T) {
			g := NewWithT(t)
			s := startService(t)
			p := startProxy(t, Options{Upstream: s.URL})
			injection := p.Inject(Rule{Fault: tc.fault})
			answers := askInBackground(t.Context(), p, http.MethodGet, "/", "")
			g.Eventually(injection.Happened, eventually).Should(BeTrue())
			g.Consistently(answers, moment).ShouldNot(Receive())
			g.Expect(p.Close()).To(Succeed())
			g.Expect(p.Close()).To(Succeed(), "again")
			g.Eventually(answers, eventually).Should(Receive(HaveField("Err", HaveOccurred())))
			g.Expect(s.requests()).To(HaveLen(tc.carried), "what was held is not forwarded")
			_, err := net.Dial("tcp", p.listener.Addr().String())
			g.Expect(err).To(HaveOccurred(), "the listener is closed")
		})
	}
}

func TestProxy_ForgetDropsFinishedRequests(t *testing.T) {
	g := NewWithT(t)
	p := startProxy(t, Options{Upstream: startService(t).URL})
	gate := NewGate(BeforeForward)
	p.Inject(Rule{Match: Match{Path: "/held"}, Fault: gate})
	g.Expect(ask(t.Context(), p, http.MethodGet, "/over", "").Status).To(Equal(200))
	answers := askInBackground(t.Context(), p, http.MethodGet, "/held", "")
	held := wait(t, gate)
	g.Eventually(func() time.Time { return p.Journal().Requests[0].Done }, eventually).ShouldNot(BeZero())
	p.Forget()
	journal := p.Journal()
	g.Expect(journal.Requests).To(HaveLen(1), "an unfinished request is kept")
	g.Expect(journal.Request(held.Request.ID).Path).To(Equal("/held"))
	g.Expect(journal.Request(1)).To(BeZero(), "what was over is not")
	held.Release()
	g.Eventually(answers, eventually).Should(Receive(HaveField("Status", 200)))
	g.Expect(ask(t.Context(), p, http.MethodGet, "/new", "").Status).To(Equal(200))
	g.Eventually(func() string { return p.Journal().Request(3).Path }, eventually).Should(Equal("/new"), "IDs go on")
}

func TestProxyOffersNoHTTP2(t *testing.T) {
	g := NewWithT(t)
	w := startWatching(t, runtime.ContentTypeJSON)
	g.Expect(w.proxy.listener.config.NextProtos).To(Equal([]string{"http/1.1"}))
}
