// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// What is kept of the connections to an upstream with Options.KeepAlive. Servers
// give up idle ones later than that.
const (
	idleConnections = 100
	idleTimeout     = 30 * time.Second
)

// Options configure a proxy.
type Options struct {
	// Upstream is the URL of the service, without a path. Required.
	Upstream string
	// UpstreamTLS is the TLS configuration for an https upstream. Nil: the default configuration,
	// which trusts the system's CAs.
	UpstreamTLS *tls.Config
	// Authenticate adds credentials of the proxy itself to requests to the upstream. Nil: the proxy
	// adds none, and forwards those of the clients.
	Authenticate func(http.RoundTripper) (http.RoundTripper, error)
	// KeepAlive reuses connections to the upstream, which saves one handshake per request. Do not
	// set it for a service that restarts: a request on a connection from before the restart would
	// fail although no rule selects it.
	KeepAlive bool
	// Kubernetes must be set if the service is a Kubernetes API server. The journal then contains
	// the events of watches, and Lag can delay them.
	Kubernetes bool
	// TLS makes the proxy serve HTTPS. Proxy.CA returns the CA of its certificate, which only this
	// program uses.
	TLS bool
	// Bodies is the maximum number of bytes that the journal stores of the body of each request,
	// and of each answer with a status code of 400 or more. Requests are then read completely
	// before they are forwarded. Set it only for services whose requests contain no credentials in
	// their bodies. Zero: no bodies are stored.
	Bodies int
	// Peer returns the name of the peer that opened a connection, given the addresses of both ends,
	// or "" if it is unknown. The journal contains this name. The proxy calls Peer once for each
	// connection, before it reads anything. Peer may be nil.
	Peer func(client, server string) string
	// Clock measures delays and provides the times in the journal. Nil: the real clock.
	Clock clock.Clock
}

// Proxy forwards requests to a service and injects faults into the requests that a Rule selects. It
// listens on a port of 127.0.0.1. If the service is unreachable, the client gets the status code
// 502, and ProxiedRequest.Error contains the reason. The methods of Proxy may be called
// concurrently.
type Proxy struct {
	url      string
	ca       []byte
	clock    clock.Clock
	journal  *journal
	listener *listener
	server   *http.Server
	reverse  *httputil.ReverseProxy
	upstream *http.Transport

	running sync.WaitGroup // what Close waits for
	bodies  int
	ctx     context.Context // ends when it is closed
	cancel  context.CancelFunc
	stop    sync.Once
	stopErr error
	mu      sync.Mutex
	open    map[*exchange]struct{} // the requests under way
	rules   []*Injection           // in the order of injection
}

// NewProxy starts a proxy. The caller must call Close. It returns an error if Options.Upstream is
// not the URL of an http or https service.
func NewProxy(o Options) (_ *Proxy, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("starting a fault proxy: %w", err)
		}
	}()
	target, err := url.Parse(o.Upstream)
	if err != nil {
		return nil, fmt.Errorf("reading the upstream's URL: %w", err)
	}
	if target.Host == "" || (target.Scheme != "http" && target.Scheme != "https") {
		return nil, fmt.Errorf("reading the upstream's URL: %q is not http://host or https://host", o.Upstream)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	p := &Proxy{clock: o.Clock, journal: &journal{}, bodies: o.Bodies, open: map[*exchange]struct{}{}}
	//nolint:forbidigo // it ends with Close, and not with a context of a caller
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.url = "http://" + tcp.Addr().String()
	p.listener = &listener{Listener: tcp, clock: o.Clock, journal: p.journal, peer: o.Peer}
	if o.TLS {
		p.url = "https://" + tcp.Addr().String()
		shown, err := newIdentity()
		if err != nil {
			return nil, errors.Join(err, tcp.Close())
		}
		p.listener.config, p.ca = shown.config, shown.ca
	}
	if err := p.forwardTo(target, o); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	p.serve()
	return p, nil
}

// forwardTo changes nothing in requests and answers, so signatures stay valid. Only a watch accepts no
// compression: Kubernetes compresses events from 1.37 on, which then could not be followed.
func (p *Proxy) forwardTo(target *url.URL, o Options) error {
	p.upstream = &http.Transport{
		TLSClientConfig: o.UpstreamTLS, DisableCompression: true, DisableKeepAlives: !o.KeepAlive,
		MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleTimeout,
	}
	authenticated := http.RoundTripper(p.upstream)
	if o.Authenticate != nil {
		var err error
		if authenticated, err = o.Authenticate(p.upstream); err != nil {
			return fmt.Errorf("reading the credentials: %w", err)
		}
	}
	p.reverse = &httputil.ReverseProxy{
		Transport:     authenticated,
		FlushInterval: -1, // at once: a watch's events must not wait in a buffer
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			if o.Kubernetes && r.In.URL.Query().Has("watch") {
				r.Out.Header.Del("Accept-Encoding")
			}
			// Taken away because a proxy usually adds itself to them.
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values, there := r.In.Header[name]; there {
					r.Out.Header[name] = values
				}
			}
		},
		ModifyResponse: func(response *http.Response) error {
			x, now := exchangeOf(response.Request), p.clock.Now()
			p.journal.note(func() {
				x.entry.Answered, x.entry.Status = now, response.StatusCode
				x.entry.AuditID = response.Header.Get(auditIDHeader)
			})
			x.keepProblem(response)
			if x.after != nil {
				if err := x.after(); err != nil {
					return err
				}
			}
			if o.Kubernetes {
				x.follow(response)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, errCut) {
				panic(http.ErrAbortHandler)
			}
			p.journal.note(func() { exchangeOf(r).entry.Error = err.Error() })
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	return nil
}

type connKey struct{}

func (p *Proxy) serve() {
	p.server = &http.Server{
		Handler:  p,
		ErrorLog: log.New(io.Discard, "", 0), // the journal has it
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if secure, ok := c.(*tls.Conn); ok {
				c = secure.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	p.running.Go(func() { _ = p.server.Serve(p.listener) }) // always an error, the end of the listener
}

// ServeHTTP handles one request of a client. It is for the proxy's own server.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		panic(http.ErrAbortHandler)
	}
	defer p.running.Done()
	c, _ := r.Context().Value(connKey{}).(*conn)
	x := &exchange{
		proxy: p, writer: w, request: r, conn: c,
		entry: &ProxiedRequest{
			Peer: c.entry.Peer, Method: r.Method, Path: r.URL.Path,
			Query: sanitize(r.URL.Query()), Header: sanitize(r.Header), Received: p.clock.Now(),
		},
	}
	p.journal.received(x.entry)
	defer func() {
		now := p.clock.Now()
		p.journal.note(func() { x.entry.Done = now })
	}()
	x.keepBody()
	// Before a rule is picked: what Sever does not find meets the rules.
	defer p.opened(x)()
	if x.injection = p.pick(r); x.injection == nil {
		x.forward()
		return
	}
	x.injection.rule.Fault.act(x)
}

// enter makes Close wait for a request, unless Close was called before.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.running.Add(1)
	return true
}

// pick evaluates all rules, so each counts its matches, and returns the first that acts.
func (p *Proxy) pick(r *http.Request) *Injection {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first *Injection
	for _, i := range p.rules {
		if i.takes(r) && first == nil {
			first = i
		}
	}
	return first
}

// Inject applies a rule to later requests. If several rules apply to a request, the one injected
// first has precedence.
func (p *Proxy) Inject(rule Rule) *Injection {
	if rule.Name == "" {
		rule.Name = fmt.Sprintf("%T", rule.Fault)
	}
	i := &Injection{rule: rule, onHeal: p.remove}
	i.ctx, i.cancel = context.WithCancel(context.WithoutCancel(p.ctx)) // Close heals it after the end of connections
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil { // else Close could leave a request held by a fault that is never healed
		p.rules = append(p.rules, i)
	}
	return i
}

func (p *Proxy) remove(i *Injection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = slices.DeleteFunc(p.rules, func(o *Injection) bool { return o == i })
}

// URL returns the URL at which clients reach the proxy.
func (p *Proxy) URL() string { return p.url }

// CA returns the CA certificate, in PEM, that clients of a proxy with Options.TLS must trust.
// Without TLS it returns nil.
func (p *Proxy) CA() []byte { return slices.Clone(p.ca) }

// Forget removes finished requests, their watch events and closed connections from the journal. The
// numbering of IDs continues.
func (p *Proxy) Forget() { p.journal.forget() }

// Journal returns a snapshot of the journal.
func (p *Proxy) Journal() Journal { return p.journal.snapshot() }

// Close closes all connections, heals all injections, and waits until the goroutines of the proxy
// have returned. It is safe to call more than once.
func (p *Proxy) Close() error {
	p.stop.Do(func() {
		p.mu.Lock()
		p.cancel()
		injections := slices.Clone(p.rules)
		p.mu.Unlock()
		p.stopErr = p.server.Close()
		for _, i := range injections {
			i.Heal()
		}
		p.running.Wait()
		p.upstream.CloseIdleConnections()
		if p.stopErr != nil {
			p.stopErr = fmt.Errorf("stopping a fault proxy: %w", p.stopErr)
		}
	})
	return p.stopErr
}
