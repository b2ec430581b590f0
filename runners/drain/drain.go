// Package drain lets the clients of the webhooks go before the manager stops. The
// API server keeps its connections open, and a request that is on its way over one
// at the moment it is closed is lost: a Service can only keep new ones away.
package drain

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Drain is the time between being asked to stop and stopping.
type Drain struct {
	delay    time.Duration
	clock    clock.Clock
	draining atomic.Bool
}

// New returns a Drain that takes that long. Zero stops at once.
func New(delay time.Duration, c clock.Clock) *Drain {
	return &Drain{delay: delay, clock: c}
}

// Context is done as long after asked as the Drain takes. It keeps asked's values.
func (d *Drain) Context(asked context.Context) context.Context {
	ctx, stop := context.WithCancel(context.WithoutCancel(asked))
	go func() {
		defer stop()
		<-asked.Done()
		d.draining.Store(true)
		<-d.clock.After(d.delay)
	}()
	return ctx
}

// Webhooks is server, but for the answers that it gives while it drains: each says
// that its connection is not to be used again.
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
