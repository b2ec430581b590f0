// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
)

// Sever cuts the requests in flight that m matches, watches included, and returns their number.
// Their clients see a closed connection. A request that a Gate holds before its forwarding stays
// held. From and To of m are ignored. Call Sever after Inject to apply a new fault to open
// connections.
func (p *Proxy) Sever(m Match) int {
	all := p.matching(m)
	for _, x := range all {
		x.sever(errCut)
	}
	return len(all)
}

// Open returns how many requests are under way that m is about. From and To of m do
// not count.
func (p *Proxy) Open(m Match) int { return len(p.matching(m)) }

func (p *Proxy) matching(m Match) []*exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*exchange
	for x := range p.open {
		if m.fits(x.entry.Method, x.entry.Path, x.entry.Query) {
			all = append(all, x)
		}
	}
	return all
}

// opened registers a request that begins, so it can be severed. The caller calls over when it
// ends.
func (p *Proxy) opened(x *exchange) (over func()) {
	ctx, sever := context.WithCancelCause(x.request.Context())
	x.request, x.sever = x.request.WithContext(ctx), sever
	p.mu.Lock()
	p.open[x] = struct{}{}
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		delete(p.open, x)
		p.mu.Unlock()
		sever(nil)
	}
}

// severed is errCut of a request that was severed while its client could have had
// an answer. Short ones are in the proxy's buffers by then, and would be passed on.
func (x *exchange) severed() error {
	if cause := context.Cause(x.request.Context()); errors.Is(cause, errCut) {
		return cause
	}
	return nil
}
