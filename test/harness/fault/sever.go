package fault

import (
	"context"
	"errors"
)

// Sever cuts the requests that are under way and that m is about, watches among
// them, and returns how many they were. Their clients see a connection that ends,
// but what stands at a Gate before its forwarding stays there. From and To of m do
// not count. After an Inject it makes what is new true of what is old.
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
