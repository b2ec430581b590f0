// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"
)

// Point is a point in the life of a request at which a fault can stop it.
type Point string

// The points at which a fault can stop a request.
const (
	BeforeForward Point = ""             // the upstream has not received the request
	AfterAnswer   Point = "after answer" // the upstream has carried out the request; the client has no answer yet
)

// Delay delays a request, or its answer. If the client closes the connection before a delayed
// request is forwarded, the request is never forwarded. Use a Gate to forward it nevertheless.
type Delay struct {
	At  Point
	For time.Duration
}

func (d Delay) act(x *exchange) {
	x.stopAt(d.At, func() error {
		timer := x.proxy.clock.NewTimer(d.For)
		defer timer.Stop()
		x.happened(x.injection)
		select {
		case <-timer.C():
			return nil
		case <-x.injection.ctx.Done():
			return nil
		case <-x.request.Context().Done():
			return errCut
		}
	})
}

// Cut closes the connection of the client. The request is lost before it is forwarded, or the
// answer is lost after the upstream has carried out the request.
type Cut struct {
	At Point
}

func (c Cut) act(x *exchange) {
	x.stopAt(c.At, func() error {
		x.happened(x.injection)
		return errCut
	})
}

// Answer answers in place of the upstream, which does not see the request. The answer can be an
// error, a redirect, or a body that the client does not expect.
type Answer struct {
	// Status is the HTTP status code. Zero: 200.
	Status int
	Header http.Header
	Body   string
}

// S3Error returns the Answer of an S3 server with an HTTP status code and an S3 error code, such as
// 503 and SlowDown.
func S3Error(status int, code string) Answer {
	return Answer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/xml"}},
		Body: fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>injected</Message></Error>`,
			code),
	}
}

func (a Answer) status() int {
	return cmp.Or(a.Status, http.StatusOK)
}

func (a Answer) act(x *exchange) {
	x.happened(x.injection)
	x.proxy.journal.note(func() { x.entry.Instead = a.status() })
	maps.Copy(x.writer.Header(), a.Header)
	x.writer.WriteHeader(a.status())
	_, _ = x.writer.Write([]byte(a.Body)) // the client may have closed the connection
}

// BlackHole reads the request and never answers. It closes the connection when the client does, or
// when the injection is healed.
type BlackHole struct{}

func (BlackHole) act(x *exchange) {
	// Only to unblock the reader or the writer.
	defer context.AfterFunc(x.injection.ctx, func() { _ = x.conn.Close() })()
	x.happened(x.injection)
	x.buffer()
	<-x.request.Context().Done()
	x.cut()
}
