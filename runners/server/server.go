package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"leasehold.dev/runners/connections"
)

const (
	// headerTimeout bounds the TLS handshake, and the time in which a header arrives.
	headerTimeout = 5 * time.Second
	// requestTimeout bounds the time in which a request arrives, where nothing narrower does.
	requestTimeout = 10 * time.Second
	// responseTimeout bounds a request from its header to the end of its response.
	responseTimeout = 30 * time.Second
	// idleTimeout is longer than the 90 s after which Go's clients close idle connections, so a
	// connection is not closed while a client sends a request on it.
	idleTimeout = 100 * time.Second
	// headerBytes are enough for a token of 16 KiB.
	headerBytes = 32 << 10
)

// New returns a server for a connections.Listener. It logs failed handshakes at the level of
// debugging, since any client can cause them.
func New(ctx context.Context, handler http.Handler, log logr.Logger) *http.Server {
	server := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      responseTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelDebug),
	}
	connections.Bind(server)
	return server
}
