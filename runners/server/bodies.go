package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/runners/connections"
)

const (
	// bodyTimeout bounds the time in which a small body arrives, or the begin of a large one. The API
	// server sends the largest one in milliseconds.
	bodyTimeout = 2 * time.Second
	// heldTimeout bounds the time for which a client that stalls holds a place: for the rest of a large
	// body, and for a response. Those that wait share it: otherwise a few stalled flows would take the
	// 5 s of a webhook.
	heldTimeout = time.Second
	// leastTimeout is enough for 4 MiB at 1 Gbit/s.
	leastTimeout = 40 * time.Millisecond
	// smallBody is what the server reads of each body before it limits anything. It includes the
	// reviews of most objects.
	smallBody = 32 << 10
	// smallAtOnce bounds the small reviews that are decoded at the same time.
	smallAtOnce = 32
	// largeAtOnce bounds the bytes of larger bodies that are read and decoded at the same time. A
	// decoded review needs about ten times its size.
	largeAtOnce = maxBody
	// maxBody is the largest body. A review of an update has two objects of at most 1.5 MiB. A response
	// repeats the UID of the review, whose characters may take six bytes each there, and several copies.
	maxBody = 4 << 20
	// maxValues bounds the values of a body, as a decoded one needs up to 300 bytes, and the least takes
	// 3 bytes of the body. The largest objects with webhooks have some hundred, and as many for each
	// field manager.
	maxValues = 64 << 10
	// maxWait bounds the wait of a large request. It is the API server's timeout for a webhook that
	// names none. The shipped webhooks name 5 s.
	maxWait = 10 * time.Second
)

// bodies limits the memory of concurrent admission requests. A small request never waits for a body
// that is still to come: it takes a place when it is complete. A large request first has to send more
// than a small body. So idle bodies cost one connection each, and no place.
type bodies struct {
	mux   *http.ServeMux
	clock clock.PassiveClock
	small *turns // of one byte each
	large *turns
}

func limitBodies(mux *http.ServeMux, c clock.PassiveClock) *bodies {
	return &bodies{mux: mux, clock: c, small: newTurns(smallAtOnce), large: newTurns(largeAtOnce)}
}

// ServeHTTP implements http.Handler.
func (b *bodies) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	_, path := b.mux.Handler(request)
	if path == "" {
		http.NotFound(response, request)
		return
	}
	if request.ContentLength > maxBody {
		refuse(response, "the request is too large", http.StatusRequestEntityTooLarge)
		return
	}
	// A response without deadlines has those of the server.
	control := http.NewResponseController(response)
	deadline := func(after time.Duration) { _ = control.SetReadDeadline(b.clock.Now().Add(after)) }
	arrived := func() { _ = control.SetReadDeadline(time.Time{}) }
	deadline(bodyTimeout)
	begin, err := io.ReadAll(io.LimitReader(request.Body, smallBody+1))
	if err != nil {
		refuse(response, "the body did not arrive in time", http.StatusRequestTimeout)
		return
	}
	arrived()
	limit, size := b.small, int64(1)
	if len(begin) <= smallBody {
		connections.Complete(request)
	} else if limit, size = b.large, request.ContentLength; size < 0 {
		size = largeAtOnce
	}
	ctx, cancel := context.WithTimeout(request.Context(), timeoutOf(request))
	defer cancel()
	if err := limit.acquire(ctx, flow{connections.HostOf(request.RemoteAddr), path}, size); err != nil {
		refuse(response, "too many requests at once", http.StatusServiceUnavailable)
		return
	}
	defer limit.release(size)
	rest := io.Reader(http.NoBody)
	if len(begin) > smallBody {
		deadline(limit.share())
		rest = &remainder{http.MaxBytesReader(response, request.Body, maxBody), func() {
			arrived()
			connections.Complete(request)
		}}
	}
	request.Body = io.NopCloser(&values{Reader: io.MultiReader(bytes.NewReader(begin), rest), left: maxValues})
	b.mux.ServeHTTP(&writer{response, func() {
		_ = control.SetWriteDeadline(b.clock.Now().Add(limit.share()))
	}}, request)
}

// writer starts the time in which the client has to read the response.
type writer struct {
	http.ResponseWriter
	begin func()
}

// Write implements http.ResponseWriter.
func (w *writer) Write(response []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(response)
}

// refuse answers a request whose body has not been read, so the server closes its connection.
func refuse(response http.ResponseWriter, why string, code int) {
	response.Header().Set("Connection", "close")
	http.Error(response, why, code)
}

// remainder reports the end of a body.
type remainder struct {
	io.Reader
	ended func()
}

// Read implements io.Reader.
func (r *remainder) Read(into []byte) (int, error) {
	n, err := r.Reader.Read(into)
	if errors.Is(err, io.EOF) {
		r.ended()
	}
	return n, err
}

// values ends JSON that has more values than left. The attacker sends millions of empty ones.
type values struct {
	io.Reader
	left            int
	quoted, escaped bool
}

var errManyValues = fmt.Errorf("the body has more than %d JSON values", maxValues)

// Read implements io.Reader.
func (v *values) Read(into []byte) (int, error) {
	n, err := v.Reader.Read(into)
	for _, b := range into[:n] {
		switch {
		case v.escaped:
			v.escaped = false
		case b == '"':
			v.quoted = !v.quoted
		case v.quoted:
			v.escaped = b == '\\'
		case b == ',', b == '[', b == '{': // a value follows
			v.left--
		}
	}
	if v.left < 0 {
		return 0, errManyValues
	}
	return n, err
}

// timeoutOf returns the time that the API server waits for a response, from the URL, and at most
// maxWait: any client can write a URL.
func timeoutOf(request *http.Request) time.Duration {
	if d, err := time.ParseDuration(request.URL.Query().Get("timeout")); err == nil && d > 0 {
		return min(d, maxWait)
	}
	return maxWait
}
