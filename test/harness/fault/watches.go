// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"time"
)

// Lag delays all events of watches, including bookmarks, until it is healed, and then releases them
// in order. It takes hold of watches that are open when it is injected, as informers have theirs for
// hours, and of new ones. It has happened to each watch with a delayed event. Match.From and To mean
// nothing to it.
type Lag struct {
	// For is when it heals by itself. Zero: not.
	For time.Duration
}

// Name returns a short word for it.
func (Lag) Name() string { return "lag" }

// end heals the injection when its time is over.
func (l Lag) end(p *Proxy, i *Injection) {
	p.await(i, l.For)
	i.Heal()
}

func (Lag) act(x *exchange) { x.forward() }

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

// holder is the fault that holds the events of a watch back. Nil: none.
func (p *Proxy) holder(watch *http.Request) *Injection {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.rules {
		if _, is := i.rule.Fault.(Lag); is && i.concerns(watch) {
			return i
		}
	}
	return nil
}
