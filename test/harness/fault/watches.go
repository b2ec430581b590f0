// SPDX-License-Identifier: Apache-2.0

package fault

import "net/http"

// Lag delays all events of watches, including bookmarks, until it is healed, and then releases them
// in order. It takes hold of watches that are open when it is injected, as informers have theirs for
// hours, and of new ones. It has happened to each watch with a delayed event. Match.From and To mean
// nothing to it.
type Lag struct{}

func (Lag) act(x *exchange) { x.forward() }

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
