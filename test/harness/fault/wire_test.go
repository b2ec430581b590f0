package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
)

// dial opens a connection without any protocol.
func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.listener.Addr().String())
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.SetDeadline(time.Now().Add(eventually))).To(Succeed())
	t.Cleanup(func() { _ = conn.Close() }) // Close of the proxy may have come first
	return conn
}

// beErrorOf matches an error of type T somewhere in the chain.
func beErrorOf[T error]() types.GomegaMatcher {
	return WithTransform(func(err error) bool {
		var target T
		return errors.As(err, &target)
	}, BeTrue())
}

func TestWireFaults(t *testing.T) {
	for _, tc := range []struct {
		from, to Wire
		want     types.GomegaMatcher
	}{
		{TLS, UnknownCA, beErrorOf[x509.UnknownAuthorityError]()},
		{TLS, Expired, MatchError(ContainSubstring("certificate has expired or is not yet valid"))},
		{TLS, NotYetValid, MatchError(ContainSubstring("certificate has expired or is not yet valid"))},
		{TLS, WrongHost, beErrorOf[x509.HostnameError]()},
		{TLS, OldTLS, MatchError(ContainSubstring("protocol version not supported"))},
		{TLS, Plain, MatchError(ContainSubstring("server gave HTTP response to HTTPS client"))},
		{TLS, Reset, beLost},
		{Plain, Reset, beLost},
	} {
		t.Run(string(tc.from+" and "+tc.to), func(t *testing.T) {
			g := NewWithT(t)
			s := startService(t)
			p := startProxy(t, Options{Upstream: s.URL, Wire: tc.from})
			injection := p.InjectWire(tc.to)
			g.Expect(ask(t.Context(), p, http.MethodGet, "/", "").Err).To(tc.want)
			g.Expect(injection.Count()).To(Equal(1))
			g.Expect(injection.Name()).To(Equal(string(tc.to)))
			g.Expect(s.requests()).To(BeEmpty())
			g.Expect(p.Journal().Connections).To(HaveExactElements(HaveField("Wire", tc.to)))

			injection.Heal()
			g.Expect(ask(t.Context(), p, http.MethodGet, "/", "").Body).To(Equal("done"), "after Heal")
			g.Expect(injection.Count()).To(Equal(1))
		})
	}
}

func TestClientWithoutTLSOnATLSWire(t *testing.T) {
	g := NewWithT(t)
	p := startProxy(t, Options{Upstream: startService(t).URL})
	injection := p.InjectWire(TLS)
	got := ask(t.Context(), p, http.MethodGet, "/", "")
	g.Expect(got.Status).To(Equal(http.StatusBadRequest))
	g.Expect(got.Body).To(ContainSubstring("HTTP request to an HTTPS server"))
	g.Expect(injection.Count()).To(Equal(1))
	g.Expect(p.Journal().Requests).To(BeEmpty())
}

// TestBadCertificatesAreBadInOneWayOnly takes away the one reason that a client
// has and expects that it is content.
func TestBadCertificatesAreBadInOneWayOnly(t *testing.T) {
	g := NewWithT(t)
	p := startProxy(t, Options{Upstream: startService(t).URL, Wire: TLS})
	pool := x509.NewCertPool()
	g.Expect(pool.AppendCertsFromPEM(p.CA())).To(BeTrue())
	for wire, config := range map[Wire]*tls.Config{
		TLS:       {RootCAs: pool},
		WrongHost: {RootCAs: pool, ServerName: WrongHostName},
		OldTLS:    {RootCAs: pool, MinVersion: tls.VersionTLS10},
	} {
		injection := p.InjectWire(wire)
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}
		response, err := (&http.Client{Transport: transport}).Get(p.URL())
		g.Expect(err).NotTo(HaveOccurred(), string(wire))
		g.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo("done"))
		g.Expect(response.Body.Close()).To(Succeed())
		old := response.TLS.Version <= tls.VersionTLS11
		g.Expect(old).To(Equal(wire == OldTLS))
		injection.Heal()
	}
}

func TestSilentWire(t *testing.T) {
	for _, from := range []Wire{Plain, TLS} {
		t.Run(string(from), func(t *testing.T) {
			g := NewWithT(t)
			s := startService(t)
			p := startProxy(t, Options{Upstream: s.URL, Wire: from})
			injection := p.InjectWire(Silent)
			leaves, leave := context.WithCancel(t.Context())
			left := askInBackground(leaves, p, http.MethodGet, "/", "")
			stays := askInBackground(t.Context(), p, http.MethodGet, "/", "")
			g.Eventually(injection.Count, eventually).Should(Equal(2))
			g.Consistently(stays, moment).ShouldNot(Receive())
			g.Eventually(func(g Gomega) {
				for _, c := range p.Journal().Connections {
					g.Expect(c.Received).To(BeNumerically(">", 0), "it is read")
				}
			}, eventually).Should(Succeed())
			leave()
			g.Eventually(left, eventually).Should(Receive(HaveField("Err", MatchError(context.Canceled))))
			injection.Heal()
			g.Eventually(stays, eventually).Should(Receive(HaveField("Err", beLost)))
			g.Expect(ask(t.Context(), p, http.MethodGet, "/", "").Body).To(Equal("done"), "after Heal")
			g.Expect(s.requests()).To(HaveLen(1))
		})
	}
}

// TestWireReachesClientsThatKeepConnections has a client that would go on with
// its good connection for ever.
func TestWireReachesClientsThatKeepConnections(t *testing.T) {
	g := NewWithT(t)
	p := startProxy(t, Options{Upstream: startService(t).URL, Wire: TLS})
	pool := x509.NewCertPool()
	g.Expect(pool.AppendCertsFromPEM(p.CA())).To(BeTrue())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	get := func() error {
		response, err := (&http.Client{Transport: transport}).Get(p.URL())
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return err
	}
	g.Expect(get()).To(Succeed())
	g.Expect(get()).To(Succeed())
	g.Expect(p.Journal().Connections).To(HaveLen(1))
	first, second := p.InjectWire(Expired), p.InjectWire(WrongHost)
	g.Eventually(get, eventually).Should(beErrorOf[x509.HostnameError](), "the last one counts")
	second.Heal()
	g.Eventually(get, eventually).Should(beErrorOf[x509.CertificateInvalidError]())
	first.Heal()
	g.Eventually(get, eventually).Should(Succeed())
}
