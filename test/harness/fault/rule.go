// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Match selects the requests that satisfy all of its fields. The zero value selects every request.
type Match struct {
	// Methods are the methods to match. Empty: all.
	Methods []string
	// Path is the complete path. A trailing slash is ignored. Empty: any path.
	Path string
	// Pattern matches the path. Nil: any.
	Pattern *regexp.Regexp
	// Query contains the parameters that the request must have. An empty value here matches any
	// value.
	Query map[string]string
	// NoQuery selects only requests without parameters.
	NoQuery bool
	// From and To are the first and the last request to act on, of the requests that the other fields
	// select. They count from 1, beginning when the rule is injected. If From is zero, the first
	// request is included. If To is zero, there is no last request.
	From, To int
}

// fits compares everything except From and To.
func (m Match) fits(method, path string, query map[string][]string) bool {
	if len(m.Methods) > 0 && !slices.Contains(m.Methods, method) {
		return false
	}
	if m.Path != "" && strings.TrimSuffix(m.Path, "/") != strings.TrimSuffix(path, "/") {
		return false
	}
	if m.Pattern != nil && !m.Pattern.MatchString(path) {
		return false
	}
	if m.NoQuery && len(query) > 0 {
		return false
	}
	for key, want := range m.Query {
		values, there := query[key]
		if !there || (want != "" && !slices.Contains(values, want)) {
			return false
		}
	}
	return true
}

// due reports whether a rule acts on the nth matching request.
func (m Match) due(n int) bool {
	return n >= m.From && (m.To == 0 || n <= m.To)
}

// Rule selects requests and the fault that is injected into them.
type Rule struct {
	// Name identifies the rule in the journal. Empty: the type of its fault.
	Name  string
	Match Match
	Fault Fault // what happens to the requests
}

// Fault is a way in which a request fails: Delay, Cut, Answer, BlackHole or *Gate. For the watches
// of an API server there is also Lag.
type Fault interface {
	// act answers the request or not. It calls x.happened when the fault takes effect, and
	// x.forward to forward the request.
	act(x *exchange)
}

// Injection is a Rule that is in force until it is healed. Its methods may be called concurrently.
type Injection struct {
	rule   Rule
	ctx    context.Context // ends when it is healed
	cancel context.CancelFunc
	onHeal func(*Injection)

	mu    sync.Mutex
	fits  int // requests that fitted so far
	count int
}

// Count returns how often the fault has taken effect so far. Requests that matched and then failed
// for another reason do not count.
func (i *Injection) Count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.count
}

// Happened reports whether the fault has taken effect at least once.
func (i *Injection) Happened() bool { return i.Count() > 0 }

// Heal ends the injection, so that new requests pass. Requests that a Delay, a Lag or a Gate holds
// continue. The connections of requests in a BlackHole are closed. It is safe to call more than
// once.
func (i *Injection) Heal() {
	i.cancel()
	i.onHeal(i)
}

func (i *Injection) happened() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.count++
}

// concerns looks at all of the match but From and To.
func (i *Injection) concerns(r *http.Request) bool {
	return i.rule.Match.fits(r.Method, r.URL.Path, r.URL.Query())
}

// takes counts r if it matches and reports whether to act on it.
func (i *Injection) takes(r *http.Request) bool {
	if !i.concerns(r) {
		return false
	}
	if _, is := i.rule.Fault.(Lag); is {
		return false // the request passes, its answer does not
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fits++
	return i.rule.Match.due(i.fits)
}
