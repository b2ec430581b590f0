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

// Match selects requests for which all of its fields are true. The zero value selects every
// request.
type Match struct {
	// Methods are the methods to match. Empty: all.
	Methods []string
	// Path is the whole path; a slash at its end does not count. Empty: any.
	Path string
	// Pattern matches the path. Nil: any.
	Pattern *regexp.Regexp
	// Query are parameters the request has to have, with any value when the
	// value here is empty.
	Query map[string]string
	// NoQuery takes only requests without any parameter.
	NoQuery bool
	// From and To are the first and the last request to act on among those
	// that the rest matches, counted from 1 since the rule was injected.
	// Zero: from the first, without an end.
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

// Fault is one way in which a request fails: Delay, Cut, Answer, BlackHole or *Gate; or a watch of an
// API server: Lag.
type Fault interface {
	// act answers the request or not. It calls x.happened when the fault takes effect, and
	// x.forward to forward the request.
	act(x *exchange)
}

// Injection is a Rule at work. Its methods may be called from several
// goroutines.
type Injection struct {
	rule   Rule
	ctx    context.Context // ends when it is healed
	cancel context.CancelFunc
	onHeal func(*Injection)

	mu    sync.Mutex
	fits  int // requests that fitted so far
	count int
}

// Count returns how often the fault has really happened so far. Requests that
// matched and then failed for another reason do not count.
func (i *Injection) Count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.count
}

// Happened reports whether the fault has happened at all.
func (i *Injection) Happened() bool { return i.Count() > 0 }

// Heal ends the injection: new requests pass. Those it has a hold on go on if
// they were delayed, lag or stand at a Gate, and are cut in all other cases. It is
// safe to call more than once.
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
