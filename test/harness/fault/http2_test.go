package fault

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// two is a client that speaks HTTP/2 and keeps its connection.
type two struct {
	*http.Client
	proxy *Proxy
}

func startTwo(t *testing.T, upstream string) *two {
	t.Helper()
	p := startProxy(t, Options{Upstream: upstream, Wire: TLS, HTTP2: true})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.CA())
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return &two{Client: &http.Client{Transport: transport, Timeout: eventually}, proxy: p}
}

func (c *two) ask(t *testing.T, method, path string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.proxy.URL()+path, http.NoBody)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	response, err := c.Do(request)
	if err != nil {
		return answer{Err: err}
	}
	defer response.Body.Close()
	NewWithT(t).Expect(response.ProtoMajor).To(Equal(2))
	said, err := io.ReadAll(response.Body)
	return answer{Status: response.StatusCode, Body: string(said), Err: err}
}

func (c *two) inBackground(t *testing.T, method, path string) <-chan answer {
	t.Helper()
	answers := make(chan answer, 1)
	go func() { answers <- c.ask(t, method, path) }()
	return answers
}

// connections are those that are open.
func (c *two) connections() int {
	n := 0
	for _, each := range c.proxy.Journal().Connections {
		if each.Closed.IsZero() {
			n++
		}
	}
	return n
}

// On one connection a fault of one request is not one of the others.
func TestHTTP2FaultsAreOfOneStream(t *testing.T) {
	refusal, err := Refusal(http.StatusConflict)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		fault Fault
		heal  bool // it does not end by itself
		count int
	}{
		"cut":        {Cut{}, false, 1},
		"black hole": {BlackHole{}, true, 1},
		"endless":    {Endless{}, true, 1},
		"answer":     {refusal, false, 1},
		"garbage":    {Garbage{}, false, 0},
		"drip":       {Drip{Every: time.Millisecond}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := startTwo(t, startStream(t).URL)
			stream := c.inBackground(t, http.MethodGet, "/stream")
			g.Eventually(func() int { return len(c.proxy.Journal().answered()) }, eventually).Should(Equal(1))
			injection := c.proxy.Inject(Rule{Match: Match{Path: "/slow"}, Fault: tc.fault})
			spoiled := c.inBackground(t, http.MethodPut, "/slow")
			if tc.heal {
				g.Eventually(injection.Happened, eventually).Should(BeTrue())
				g.Consistently(spoiled, moment).ShouldNot(Receive())
				injection.Heal()
			}
			var got answer
			g.Eventually(spoiled, eventually).Should(Receive(&got))
			if name == "answer" {
				g.Expect(got.Status).To(Equal(http.StatusConflict))
			} else {
				g.Expect(got.Err).To(HaveOccurred())
			}
			g.Expect(injection.Count()).To(Equal(tc.count))
			g.Expect(stream).NotTo(Receive(), "the other one goes on")
			g.Expect(c.connections()).To(Equal(1))
			c.proxy.Sever(Match{})
			g.Eventually(stream, eventually).Should(Receive(HaveField("Body", "event\n")))
		})
	}
}

// An open connection keeps the wire that it was made with. Severing its requests makes the client
// connect again and meet the new wire.
func TestHTTP2MeetsANewWireWhenItsConnectionIsIdle(t *testing.T) {
	g := NewWithT(t)
	c := startTwo(t, startStream(t).URL)
	stream := c.inBackground(t, http.MethodGet, "/stream")
	g.Eventually(func() int { return len(c.proxy.Journal().answered()) }, eventually).Should(Equal(1))
	reset := c.proxy.InjectWire(Reset)
	g.Expect(c.connections()).To(Equal(1))
	g.Expect(reset.Happened()).To(BeFalse())
	g.Expect(c.proxy.Sever(Match{})).To(Equal(1))
	g.Eventually(stream, eventually).Should(Receive())
	g.Eventually(c.connections, eventually).Should(BeZero())
	g.Expect(c.ask(t, http.MethodGet, "/stream").Err).To(HaveOccurred())
	g.Expect(reset.Happened()).To(BeTrue())
	reset.Heal()

	t.Log("a connection that is idle at that moment is closed, too")
	service := startService(t)
	c = startTwo(t, service.URL)
	g.Expect(c.ask(t, http.MethodGet, "/a").Body).To(Equal("done"))
	g.Eventually(func() bool {
		c.proxy.listener.mu.Lock()
		defer c.proxy.listener.mu.Unlock()
		for each := range c.proxy.listener.open {
			return each.idle.Load()
		}
		return false
	}, eventually).Should(BeTrue())
	c.proxy.InjectWire(UnknownCA)
	g.Eventually(c.connections, eventually).Should(BeZero())
	// At first the client may not have noticed that its connection has gone.
	g.Eventually(func() error { return c.ask(t, http.MethodGet, "/a").Err }, eventually).
		Should(MatchError(ContainSubstring("certificate")))
}

func TestHTTP2IsOnlyOfferedWhereItIsAskedFor(t *testing.T) {
	g := NewWithT(t)
	w := startWatching(t)
	g.Expect(w.proxy.listener.configs[TLS].NextProtos).To(Equal([]string{"http/1.1"}))
}
