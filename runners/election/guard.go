// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// exemptGroups are the API groups that a replica may write to without a term:
// events report what happened, also after it; the Lease itself makes leaders; and reviews of
// tokens and access change nothing, but standbys need them to serve metrics.
var exemptGroups = []string{"events.k8s.io", "coordination.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}

// GuardWrites is for rest.Config.Wrap. The transport that it returns rejects writes outside the
// term with ErrNotLeading, before any byte is sent. Reads pass, because standbys fill caches.
// Writes of Leases and events, and reviews of tokens and access, also pass.
func (t *Term) GuardWrites(next http.RoundTripper) http.RoundTripper {
	return t.guard(next, func(r *http.Request) bool {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			return true
		}
		return isExempt(r.URL.Path)
	})
}

// GuardAll returns a transport that rejects all requests outside the term with ErrNotLeading. It is
// for systems outside the cluster, which no fence protects. It also guards each write to a
// connection of transport: a process that is paused while it dials must not send the request when
// it resumes. It therefore changes transport, which must not be shared with other clients.
func (t *Term) GuardAll(transport *http.Transport) http.RoundTripper {
	if t == nil {
		return transport
	}
	dial := transport.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &guardedConn{Conn: conn, term: t}, nil
	}
	return t.guard(transport, func(*http.Request) bool { return false })
}

func (t *Term) guard(next http.RoundTripper, exempt func(*http.Request) bool) http.RoundTripper {
	if t == nil {
		return next
	}
	return &guarded{next: next, term: t, exempt: exempt}
}

// guarded rejects requests outside the term.
type guarded struct {
	next   http.RoundTripper
	term   *Term
	exempt func(*http.Request) bool
}

// RoundTrip implements http.RoundTripper.
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.exempt(r) {
		return g.next.RoundTrip(r)
	}
	if err := g.term.check(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper closes it, and nothing was read
		}
		return nil, fmt.Errorf("rejecting %s %s: %w", r.Method, r.URL.Path, err)
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper gives client-go access to the wrapped transport.
func (g *guarded) WrappedRoundTripper() http.RoundTripper { return g.next }

// guardedConn sends nothing outside the term.
type guardedConn struct {
	net.Conn
	term *Term
}

// Write implements net.Conn.
func (c *guardedConn) Write(b []byte) (int, error) {
	if err := c.term.check(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// isExempt reports whether a path of the API server belongs to one of the exempt groups, or to
// events of the core group. The API may be served below a prefix.
func isExempt(path string) bool {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	root := slices.IndexFunc(segments, func(s string) bool { return s == "api" || s == "apis" })
	if root < 0 || len(segments) < root+3 {
		return false
	}
	if segments[root] == "apis" {
		return slices.Contains(exemptGroups, segments[root+1])
	}
	rest := segments[root+2:]
	if len(rest) > 2 && rest[0] == "namespaces" {
		rest = rest[2:]
	}
	return rest[0] == "events"
}
