// Package drain gives the clients of the webhooks time to disconnect before the manager stops. The
// API server keeps its connections open. A request that is in transit when its connection is closed
// is lost, and a Service only redirects new connections.
package drain

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Drain is the time between the signal to stop and the stop.
type Drain struct {
	delay    time.Duration
	clock    clock.Clock
	draining atomic.Bool
}

// New returns a Drain of this duration. With zero the stop follows at once.
func New(delay time.Duration, c clock.Clock) *Drain {
	return &Drain{delay: delay, clock: c}
}

// Context returns a context that is done this long after parent. It has the values of parent.
func (d *Drain) Context(parent context.Context) context.Context {
	ctx, stop := context.WithCancel(context.WithoutCancel(parent))
	go func() {
		defer stop()
		<-parent.Done()
		d.draining.Store(true)
		<-d.clock.After(d.delay)
	}()
	return ctx
}

// Webhooks returns server with responses that, while it drains, make the client close the
// connection.
func (d *Drain) Webhooks(server webhook.Server) webhook.Server {
	return &webhooks{Server: server, drain: d}
}

type webhooks struct {
	webhook.Server
	drain *Drain
}

// Register implements webhook.Server.
func (w *webhooks) Register(path string, hook http.Handler) {
	w.Server.Register(path, http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if w.drain.draining.Load() {
			answer.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(answer, request)
	}))
}
