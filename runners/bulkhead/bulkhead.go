// Package bulkhead bounds the memory that concurrent admission requests hold. A request
// about a large object takes some ten times its size, and the API server sends as many at
// once as users make.
package bulkhead

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// capacity is how many bytes of request bodies each webhook reads at once: two updates
	// of the largest objects, or some hundred small ones.
	capacity = 4 << 20
	// defaultTimeout is the API server's own, for a request that names none.
	defaultTimeout = 10 * time.Second
)

// Webhooks returns server with a bulkhead for each webhook: a flood of requests to one does
// not hold up another. Requests wait in order, and before their bodies are read.
func Webhooks(server webhook.Server) webhook.Server { return &webhooks{server} }

type webhooks struct{ webhook.Server }

// Register implements webhook.Server.
func (w *webhooks) Register(path string, hook http.Handler) {
	w.Server.Register(path, &handler{Handler: hook, free: semaphore.NewWeighted(capacity)})
}

type handler struct {
	http.Handler
	free *semaphore.Weighted // bytes
}

func (h *handler) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	size := request.ContentLength
	if size < 0 || size > capacity {
		size = capacity // one of unknown size goes alone
	}
	// The server does not see a client leave while the body is unread, so the wait needs an
	// end of its own: the time after which the API server gives up.
	ctx, cancel := context.WithTimeout(request.Context(), timeoutOf(request))
	defer cancel()
	if err := h.free.Acquire(ctx, size); err != nil {
		http.Error(response, "too many large requests at once", http.StatusServiceUnavailable)
		return
	}
	defer h.free.Release(size)
	h.Handler.ServeHTTP(response, request)
}

// timeoutOf is how long the API server waits for an answer, which it adds to the URL.
func timeoutOf(request *http.Request) time.Duration {
	if d, err := time.ParseDuration(request.URL.Query().Get("timeout")); err == nil && d > 0 {
		return d
	}
	return defaultTimeout
}
