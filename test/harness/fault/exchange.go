// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
)

// errCut ends the client's connection.
var errCut = errors.New("cut on purpose")

// exchange is a request in the proxy.
type exchange struct {
	proxy     *Proxy
	writer    http.ResponseWriter
	request   *http.Request
	conn      *conn
	entry     *ProxiedRequest
	injection *Injection // nil: the request just passes

	// after stops the upstream's response; nil if there is no fault.
	after func() error
}

type exchangeKey struct{}

// exchangeOf returns the exchange that a forwarded request belongs to.
func exchangeOf(request *http.Request) *exchange {
	x, _ := request.Context().Value(exchangeKey{}).(*exchange)
	return x
}

// happened counts a fault and adds its name to the journal. Call it when the fault is certain and
// before the client can observe it: a test that observes the effect then also reads the count.
func (x *exchange) happened(i *Injection) {
	i.happened()
	x.proxy.journal.note(func() { x.entry.Rule = i.rule.Name })
}

// noted returns the journal's entry as it is now.
func (x *exchange) noted() ProxiedRequest {
	x.proxy.journal.mu.Lock()
	defer x.proxy.journal.mu.Unlock()
	return *x.entry
}

// stopAt calls stop for the request at a point. Before it is forwarded, the whole request is read:
// only then does the server detect that a client has closed its connection.
func (x *exchange) stopAt(at Point, stop func() error) {
	if at == AfterAnswer {
		x.after = stop
		x.forward()
		return
	}
	x.buffer()
	if stop() != nil {
		x.cut()
	}
	x.forward()
}

// buffer reads the whole body of the request into memory.
func (x *exchange) buffer() []byte {
	body, err := io.ReadAll(x.request.Body)
	if err != nil {
		x.cut() // the client has closed the connection
	}
	x.request.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// outliveClient makes the forwarding independent of the client. The returned
// function ends it.
func (x *exchange) outliveClient() func() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.request.Context()))
	stop := context.AfterFunc(x.proxy.ctx, cancel)
	x.request = x.request.WithContext(ctx)
	return func() { stop(); cancel() }
}

// forward sends the request upstream and copies the response part by part. It does not forward
// requests that Close has released.
func (x *exchange) forward() {
	if x.proxy.ctx.Err() != nil {
		x.cut()
	}
	now := x.proxy.clock.Now()
	x.proxy.journal.note(func() { x.entry.Forwarded = now })
	request := x.request.WithContext(context.WithValue(x.request.Context(), exchangeKey{}, x))
	x.proxy.reverse.ServeHTTP(x.writer, request)
	// If the client or the upstream has closed the connection, the code above panics.
	now = x.proxy.clock.Now()
	x.proxy.journal.note(func() {
		if x.entry.Status != 0 && x.conn.entry.Closed.IsZero() { // else it was severed
			x.entry.Delivered = now
		}
	})
}

// cut ends the handling of the request and closes the connection.
func (*exchange) cut() { panic(http.ErrAbortHandler) }
