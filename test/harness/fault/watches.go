package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watchFault is a fault of what a watch delivers. It takes hold of watches that are
// open when it is injected, as informers have theirs for hours, and of new ones.
// Match.From and To mean nothing to it.
type watchFault interface {
	Fault
	// begin does the immediate part of the fault, and returns the remaining part.
	begin(p *Proxy, i *Injection) (rest func())
	// holds reports whether events are held back until the injection is healed.
	holds() bool
	// takes reports whether act is for such a request.
	takes(r *http.Request) bool
}

// Lag delays all events of watches, including bookmarks, until it is healed, and then releases them
// in order. It has happened to each watch with a delayed event.
type Lag struct {
	// For is when it heals by itself. Zero: not.
	For time.Duration
}

// Name returns a short word for it.
func (Lag) Name() string { return "lag" }

func (l Lag) begin(p *Proxy, i *Injection) func() {
	return func() {
		p.await(i, l.For)
		i.Heal()
	}
}

func (Lag) holds() bool              { return true }
func (Lag) takes(*http.Request) bool { return false } // the request passes, its answer does not
func (Lag) act(x *exchange)          { x.forward() }

// Skip makes clients miss events permanently, as after a compaction of the store while they were
// disconnected. It cuts watches at once and refuses new ones for a while with 429, after which a
// client still uses its version. Then that version expires, once for each cut watch, so the client
// has to list. Skip has happened when such a client has received a list, or a watch that begins
// with one. Create Skips with NewSkip, one for each proxy.
type Skip struct {
	lasts time.Duration

	mu      sync.Mutex
	refuses bool
	cut     int // the watches that there were
	expired int // how many of them received 410
}

// NewSkip returns a Skip that refuses for a while.
func NewSkip(refuse time.Duration) *Skip { return &Skip{lasts: refuse, refuses: true} }

// Name returns a short word for it.
func (*Skip) Name() string { return "skip" }

func (s *Skip) begin(p *Proxy, i *Injection) func() {
	cut := p.cutWatches(i)
	s.mu.Lock()
	s.cut = cut
	s.mu.Unlock()
	return func() {
		if s.lasts > 0 {
			p.await(i, s.lasts)
		}
		s.mu.Lock()
		s.refuses = false
		s.mu.Unlock()
		if cut == 0 {
			i.Heal() // no client has missed an event
		}
	}
}

func (*Skip) holds() bool { return false }

func (*Skip) takes(r *http.Request) bool { return r.Method == http.MethodGet }

func (s *Skip) act(x *exchange) {
	query := x.request.URL.Query()
	s.mu.Lock()
	refuses := s.refuses && isWatch(x.request.Method, query)
	expires := !s.refuses && s.expired < s.cut && goesOn(x.request.Method, query)
	lists := s.expired > 0 && !goesOn(x.request.Method, query)
	if expires {
		s.expired++
	}
	s.mu.Unlock()
	switch {
	case refuses:
		x.named()
		x.say(Refusal(http.StatusTooManyRequests))
	case expires:
		x.named()
		x.say(expiry(query.Get("resourceVersion")))
	case lists:
		x.after = func() error {
			if !x.noted().Committed() {
				return nil // it will watch again
			}
			x.happened()
			if x.injection.Count() >= s.cut {
				x.injection.Heal()
			}
			return nil
		}
		x.forward()
	default:
		x.forward()
	}
}

// goesOn reports whether a watch continues from a version, without a list.
func goesOn(method string, query url.Values) bool {
	return isWatch(method, query) && query.Get("sendInitialEvents") != "true" &&
		!slices.Contains([]string{"", "0"}, query.Get("resourceVersion"))
}

// say responds in place of the upstream.
func (x *exchange) say(answer Answer, err error) {
	if err != nil {
		x.cut() // there is no response
	}
	answer.send(x)
}

// expiry returns an API server's response to a watch from a version that it no longer has: an event
// in JSON, which all clients accept.
func expiry(version string) (Answer, error) {
	status, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Message: "too old resource version: " + version, Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
	})
	if err != nil {
		return Answer{}, fmt.Errorf("encoding that a version has expired: %w", err)
	}
	event, err := json.Marshal(metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: status}})
	if err != nil {
		return Answer{}, fmt.Errorf("encoding that a version has expired: %w", err)
	}
	return Answer{Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: string(event) + "\n"}, nil
}

// await waits for a time, if there is one, or for the end of the injection.
func (p *Proxy) await(i *Injection, d time.Duration) {
	var over <-chan time.Time
	if d > 0 {
		timer := p.clock.NewTimer(d)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-over:
	case <-i.healed:
	case <-p.closed:
	}
}

// cutWatches cuts the watches that an injection matches and returns how many of them had begun.
func (p *Proxy) cutWatches(i *Injection) int {
	begun := 0
	for _, x := range p.matching(i.rule.Match) {
		if !isWatch(x.entry.Method, x.entry.Query) {
			continue
		}
		if x.noted().Committed() {
			begun++
		}
		p.journal.note(func() { x.entry.Rule = i.name })
		x.sever(errCut)
	}
	return begun
}

// holder is the fault that holds the events of a watch back. Nil: none.
func (p *Proxy) holder(watch *http.Request) *Injection {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.rules {
		if w, is := i.rule.Fault.(watchFault); is && w.holds() && i.concerns(watch) {
			return i
		}
	}
	return nil
}
