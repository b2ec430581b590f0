// SPDX-License-Identifier: Apache-2.0

package runners

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// defaultBody is how many bytes a review may have on a path without a limit of its own.
	defaultBody = 1 << 20
	// largeBody is the size in bytes above which a body takes room.
	largeBody = 64 << 10
	// bodyRoom is how many bytes of large bodies are decoded at once. Decoded they take several times that.
	bodyRoom = 7 << 20
	// mostValues is how many JSON values a review may have. An empty object of two bytes becomes a condition
	// of a hundred. A Tenant at the limits of its schema has 2,000, and an update carries two.
	mostValues = 1 << 15
	// bodyTimeout bounds how long a body takes room before it has arrived. The API server waits for 5 s.
	bodyTimeout = 10 * time.Second
)

// BoundBodies returns server with webhooks that bound what requests need: the bytes of a review, by limits
// for paths, its JSON values, and the bytes of large reviews at once. It counts before anything is decoded.
// Any Pod can send such requests. A large one that gets no room waits until its client gives up.
//
// When the manager stops, it cancels the contexts of all requests to webhooks. The reviews that have arrived are
// answered nevertheless: their contexts end only if their client leaves.
func BoundBodies(server webhook.Server, limits map[string]int64, c clock.PassiveClock) webhook.Server {
	return &boundedBodies{Server: server, limits: limits, clock: c, room: semaphore.NewWeighted(bodyRoom)}
}

type boundedBodies struct {
	webhook.Server
	limits map[string]int64
	clock  clock.PassiveClock
	room   *semaphore.Weighted
	// stopping is the context of the server.
	stopping context.Context
}

// Start implements manager.Runnable.
func (b *boundedBodies) Start(ctx context.Context) error {
	b.stopping = ctx
	return b.Server.Start(ctx)
}

// detach returns a context that ends if the client leaves while the manager runs.
func (b *boundedBodies) detach(request context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(request))
	stop := context.AfterFunc(request, func() {
		// The server's context ends before those of its requests.
		if b.stopping == nil || b.stopping.Err() == nil {
			cancel()
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// Register implements webhook.Server. The API server shows the text of a refusal to the user.
func (b *boundedBodies) Register(path string, hook http.Handler) {
	limit := min(cmp.Or(b.limits[path], defaultBody), bodyRoom)
	b.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tooLarge := fmt.Sprintf("the review has more than %d bytes, and the review of an update contains the object "+
			"twice; remove labels, annotations or content", limit)
		size := r.ContentLength
		if size > limit {
			http.Error(w, tooLarge, http.StatusRequestEntityTooLarge)
			return
		}
		if size < 0 {
			size = limit
		}
		ctx, cancel := b.detach(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		if size > largeBody {
			if err := b.room.Acquire(ctx, size); err != nil {
				http.Error(w, "too many large requests at the same time; try again later", http.StatusServiceUnavailable)
				return
			}
			defer b.room.Release(size)
		}
		// Without this deadline a client that stops sending would keep its room. A recorder in a test
		// has no connection.
		_ = http.NewResponseController(w).SetReadDeadline(b.clock.Now().Add(bodyTimeout))
		var body bytes.Buffer
		_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
		if _, isLarge := errors.AsType[*http.MaxBytesError](err); isLarge {
			http.Error(w, tooLarge, http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("reading the review: %v", err), http.StatusBadRequest)
			return
		}
		if n := values(body.Bytes()); n > mostValues {
			http.Error(w, fmt.Sprintf("the review has %d values, more than the limit of %d; shorten the lists in "+
				"the object", n, mostValues),
				http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(&body)
		hook.ServeHTTP(w, r)
	}))
}

// values returns an upper bound of the JSON values in a text: the commas and the beginnings of lists and
// objects outside of strings.
func values(text []byte) int {
	n, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++ // the next character is escaped
		case !inString && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}
