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

// Point is a place on a request's way.
type Point string

// The two places where a request can be stopped.
const (
	BeforeForward Point = ""             // the upstream has not received it
	AfterAnswer   Point = "after answer" // the upstream has carried it out, the client gets no answer
)

// Delay delays a request. If the client closes the connection meanwhile, it is not forwarded; see
// Gate for that.
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

// Cut closes the client's connection: the request is lost before it was
// forwarded, or its answer after the upstream has given it.
type Cut struct {
	At Point
}

func (c Cut) act(x *exchange) {
	x.stopAt(c.At, func() error {
		x.happened(x.injection)
		return errCut
	})
}

// Answer answers in place of the upstream, which does not see the request: an
// error, a redirect, or text that is not what the client expects.
type Answer struct {
	// Status is the code. Zero: 200.
	Status int
	Header http.Header
	Body   string
}

// S3Error is the Answer that an S3 server gives for one of its error codes.
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

// BlackHole reads the request and never answers. When the client closes the connection or the fault
// is healed, it closes the connection.
type BlackHole struct{}

func (BlackHole) act(x *exchange) {
	// Only to unblock the reader or the writer.
	defer context.AfterFunc(x.injection.ctx, func() { _ = x.conn.Close() })()
	x.happened(x.injection)
	x.buffer()
	<-x.request.Context().Done()
	x.cut()
}
