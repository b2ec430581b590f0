// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Redacted replaces values in the journal that could be credentials.
const Redacted = "[redacted]"

// credential matches the names of headers and parameters whose values are not stored.
var credential = regexp.MustCompile(`(?i)auth|cookie|token|secret|password|signature|credential|api-?key`)

// Connection is one connection from a client. The journal contains it from the moment when the
// proxy accepted it. The times are those of the proxy's clock; a zero time means not yet.
type Connection struct {
	Remote   string
	Peer     string // the peer that opened it, from Options.Peer
	Accepted time.Time
	Closed   time.Time
	// Received is the number of bytes from the client so far, including a TLS handshake.
	Received int64
}

// ProxiedRequest is one request. The journal contains it from the moment when the proxy has read
// its headers. The times are those of the proxy's clock; a zero time means not yet or never.
type ProxiedRequest struct {
	ID     int    // from 1
	Peer   string // the peer that sent it, from Options.Peer
	Method string
	Path   string
	Query  url.Values  // the values of credentials are Redacted
	Header http.Header // the values of credentials are Redacted
	// Body is the body of the request. Problem is the body of an upstream's answer with a status
	// code of 400 or more. Both contain at most Options.Bodies bytes.
	Body, Problem []byte

	// Rule is the name of the rule whose fault affected the request. Empty: there was none.
	Rule string
	// Status is the status code of the upstream's answer. Zero: there was no answer.
	Status int
	// Instead is the status code with which an injected Answer replaced that of the upstream. Zero:
	// there was none.
	Instead int
	// AuditID is the ID of the request in the audit log of a Kubernetes API server. It is empty if
	// the upstream is another service or did not answer.
	AuditID string
	// Error is the reason why the upstream did not answer.
	Error string

	Received  time.Time
	Forwarded time.Time // when the proxy began to send it upstream
	Answered  time.Time // when the upstream's headers were received
	// Delivered is when the last part of the answer was written to the client's connection. The
	// client need not have read it.
	Delivered time.Time
	Done      time.Time // when the proxy had finished with the request
}

// Committed reports whether the upstream answered with success.
func (r ProxiedRequest) Committed() bool { return r.Status >= 200 && r.Status < 300 }

// Mutating reports whether the method may change something.
func (r ProxiedRequest) Mutating() bool {
	return !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}, r.Method)
}

// String returns the method and the URL, for messages.
func (r ProxiedRequest) String() string { return r.Method + " " + r.URL().String() }

// URL returns the request's URL without a host.
func (r ProxiedRequest) URL() *url.URL { return &url.URL{Path: r.Path, RawQuery: r.Query.Encode()} }

// Request returns the request with this ID, or the zero value if the journal does not contain it.
func (j Journal) Request(id int) ProxiedRequest {
	i, found := slices.BinarySearchFunc(j.Requests, id, func(r ProxiedRequest, id int) int { return r.ID - id })
	if !found {
		return ProxiedRequest{}
	}
	return j.Requests[i]
}

// Journal is a snapshot of a proxy's records, in the order of arrival.
type Journal struct {
	Connections []Connection
	Requests    []ProxiedRequest
	// Frames are the most recent events of watches. They are recorded only with Options.Kubernetes.
	Frames []Frame
}

// Mutating returns the requests that may have changed something.
func (j Journal) Mutating() []ProxiedRequest {
	return slices.DeleteFunc(slices.Clone(j.Requests), func(r ProxiedRequest) bool { return !r.Mutating() })
}

// Matching returns the requests that match m. From and To of m count the matching requests in the
// journal.
func (j Journal) Matching(m Match) []ProxiedRequest {
	var found []ProxiedRequest
	n := 0
	for _, r := range j.Requests {
		if !m.fits(r.Method, r.Path, r.Query) {
			continue
		}
		n++
		if m.due(n) {
			found = append(found, r)
		}
	}
	return found
}

// journal is the one that is being written.
type journal struct {
	mu            sync.Mutex
	connections   []*Connection
	requests      []*ProxiedRequest
	frames        []*Frame
	requestsSoFar int // including dropped ones: the last ID
}

// keptFrames is the minimum number of watch events that a journal keeps of those it has received.
const keptFrames = 10_000

// framed notes an event of a watch.
func (j *journal) framed(f *Frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.frames) == 2*keptFrames {
		j.frames = slices.Clone(j.frames[keptFrames:])
	}
	j.frames = append(j.frames, f)
}

func (j *journal) accepted(c *Connection) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.connections = append(j.connections, c)
}

func (j *journal) received(r *ProxiedRequest) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requestsSoFar++
	r.ID = j.requestsSoFar
	j.requests = append(j.requests, r)
}

// note changes an entry under the lock.
func (j *journal) note(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
}

// forget drops finished records.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests = slices.DeleteFunc(j.requests, func(r *ProxiedRequest) bool { return !r.Done.IsZero() })
	going := map[int]bool{}
	for _, r := range j.requests {
		going[r.ID] = true
	}
	j.connections = slices.DeleteFunc(j.connections, func(c *Connection) bool { return !c.Closed.IsZero() })
	j.frames = slices.DeleteFunc(j.frames, func(f *Frame) bool { return !going[f.Request] })
}

func (j *journal) snapshot() Journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	var s Journal
	for _, c := range j.connections {
		s.Connections = append(s.Connections, *c)
	}
	for _, r := range j.requests {
		s.Requests = append(s.Requests, *r)
	}
	for _, f := range j.frames {
		s.Frames = append(s.Frames, *f)
	}
	return s
}

// sanitize copies header or query without the values of credentials.
func sanitize(values map[string][]string) map[string][]string {
	clean := make(map[string][]string, len(values))
	for name, all := range values {
		if credential.MatchString(name) {
			all = []string{Redacted}
		}
		clean[name] = slices.Clone(all)
	}
	return clean
}
