// SPDX-License-Identifier: Apache-2.0

package fault

// Sever cuts the requests in flight that m matches, watches included, and returns their number.
// Their clients see a closed connection. A request that a Gate holds before its forwarding stays
// held. From and To of m are ignored. Call Sever after Inject to apply a new fault to open
// connections.
func (p *Proxy) Sever(m Match) int {
	p.mu.Lock() // none of them ends meanwhile, and lets another one use its connection
	defer p.mu.Unlock()
	all := p.matching(m)
	for _, x := range all {
		_ = x.conn.Close() // the client detects it
	}
	return len(all)
}

// Open returns the number of requests in flight that m matches, including watches. From and To of m
// are ignored.
func (p *Proxy) Open(m Match) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.matching(m))
}

func (p *Proxy) matching(m Match) []*exchange {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[x] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, x)
	}
}
