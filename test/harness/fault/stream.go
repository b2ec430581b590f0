// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// waitingFrames bounds the events of one watch that are buffered for a client that does not read or
// must not receive them; beyond it, no more are read from the upstream.
const waitingFrames = 256

// Lag delays all events of watches, including bookmarks, until it is healed, and then releases them
// in order. It affects new watches and watches that are already open, such as those of informers,
// which stay open for hours. Injection.Count counts each watch with a delayed event once.
// Match.From and Match.To are ignored.
type Lag struct {
	// PassInitial lets the initial events of a watch pass (sendInitialEvents), so a cache that starts is complete.
	PassInitial bool
}

func (Lag) act(x *exchange) { x.forward() }

// holder is the fault that holds the next event of a watch back. Nil: none.
func (p *Proxy) holder(watch *http.Request, initial bool) *Injection {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.rules {
		if lag, is := i.rule.Fault.(Lag); is && i.concerns(watch) && (!initial || !lag.PassInitial) {
			return i
		}
	}
	return nil
}

// stream is a watch response, event by event. It is the body that the proxy copies: each Read
// returns a part of one event, and is flushed.
type stream struct {
	x        *exchange
	ctx      context.Context // of the client
	upstream io.ReadCloser
	encoding encoding
	frames   chan waiting  // closed at the end of the upstream's answer
	closed   chan struct{} // closed when the reader has ended
	end      sync.Once
	ended    error // why the upstream's answer ended; set before frames is closed

	// Of the one that reads.
	initial bool      // the next event is one of the initial events, or their end
	rest    []byte    // of the event that is being delivered
	entry   *Frame    // its own
	handed  time.Time // when the last of it was handed to the client's connection
}

// waiting is a buffered event of the upstream.
type waiting struct {
	bytes []byte
	entry *Frame
}

// follow replaces the response's body by a stream if it is that of a watch.
func (x *exchange) follow(answer *http.Response) {
	e, known := encodingOf(answer)
	if !known {
		return
	}
	s := &stream{
		x: x, ctx: x.request.Context(), upstream: answer.Body, encoding: e,
		frames: make(chan waiting, waitingFrames), closed: make(chan struct{}),
		initial: x.request.URL.Query().Get("sendInitialEvents") == "true",
	}
	answer.Body = s
	x.proxy.running.Go(s.pump)
}

// pump reads from the upstream at once, to record when each event was received.
func (s *stream) pump() {
	defer close(s.frames)
	framed := s.encoding.framer.NewFrameReader(s.upstream)
	for {
		event, err := readFrame(framed)
		if err != nil {
			s.ended = err
			return
		}
		entry := &Frame{Request: s.x.entry.ID, Received: s.x.proxy.clock.Now()}
		if err := s.encoding.describe(event, entry); err != nil {
			s.ended = err
			return
		}
		s.x.proxy.journal.framed(entry)
		select {
		case s.frames <- waiting{s.encoding.bytes(event), entry}:
		case <-s.closed:
			return
		}
	}
}

// Read returns a part of one event. The event before has been delivered by then.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		s.delivered()
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest, s.handed = s.rest[n:], s.x.proxy.clock.Now()
	return n, nil
}

func (s *stream) delivered() {
	if s.entry == nil {
		return
	}
	s.x.proxy.journal.note(func() { s.entry.Delivered = s.handed })
	s.entry = nil
}

// next waits for an event that may be delivered.
func (s *stream) next() error {
	var event waiting
	var more bool
	select {
	case event, more = <-s.frames:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	if err := s.held(more); err != nil {
		return err
	}
	if !more {
		return s.ended
	}
	s.rest, s.entry, s.initial = event.bytes, event.entry, s.initial && !event.entry.Synced
	return nil
}

// held waits as long as a fault holds the watch back. If it is an event that waits,
// and not the end of the answer, the fault has happened.
func (s *stream) held(event bool) error {
	for {
		if s.ctx.Err() != nil { // it may have been cut by the fault that has just ended
			return s.ctx.Err()
		}
		i := s.x.proxy.holder(s.x.request, s.initial)
		if i == nil {
			return nil
		}
		if event {
			event = false // one fault for one event
			s.x.happened(i)
		}
		select {
		case <-i.ctx.Done():
		case <-s.ctx.Done():
		}
	}
}

// Close is called after the last read.
func (s *stream) Close() error {
	s.end.Do(func() { close(s.closed) })
	return s.upstream.Close()
}
