// Package bulkhead bounds the memory of concurrent admission requests. A request about a large
// object needs about ten times its size, and the API server sends any number of requests at the
// same time.
package bulkhead

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// capacity bounds the bytes of request bodies that each webhook reads at the same time: two
	// updates of the largest objects, or some hundred small ones.
	capacity = 4 << 20
	// defaultTimeout is the API server's default for a request that names none.
	defaultTimeout = 10 * time.Second
)

// Webhooks returns server with a bulkhead for each webhook: a flood of requests to one does not
// delay another. Requests wait in order, before their bodies are read.
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
		size = capacity // a body of unknown size waits for the whole capacity
	}
	// The server does not detect a disconnected client while the body is unread. So the wait ends
	// after the API server's timeout.
	ctx, cancel := context.WithTimeout(request.Context(), timeoutOf(request))
	defer cancel()
	if err := h.free.Acquire(ctx, size); err != nil {
		http.Error(response, "too many large requests at once", http.StatusServiceUnavailable)
		return
	}
	defer h.free.Release(size)
	h.Handler.ServeHTTP(response, request)
}

// timeoutOf returns the time that the API server waits for a response, from the URL.
func timeoutOf(request *http.Request) time.Duration {
	if d, err := time.ParseDuration(request.URL.Query().Get("timeout")); err == nil && d > 0 {
		return d
	}
	return defaultTimeout
}
