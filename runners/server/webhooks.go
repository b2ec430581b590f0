package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/runners/connections"
)

// webhookConnections bounds the connections to the webhooks. A few API servers need one for each
// concurrent request, at most 600 by default. A connection takes about 40 KiB.
const webhookConnections = 1024

// Webhooks returns a server for these webhooks that bounds connections, and the memory of bodies. It
// takes host, port, certificate and TLS options, and no client CA.
func Webhooks(o webhook.Options, c clock.PassiveClock) webhook.Server {
	if o.WebhookMux == nil {
		o.WebhookMux = http.NewServeMux()
	}
	return &webhooks{Server: webhook.NewServer(o), options: o, clock: c}
}

// webhooks replaces how controller-runtime's server listens. The rest of it registers webhooks and
// counts their requests.
type webhooks struct {
	webhook.Server
	options webhook.Options
	clock   clock.PassiveClock
	serving atomic.Pointer[tls.Config]
}

// WebhookMux implements webhook.Server.
func (w *webhooks) WebhookMux() *http.ServeMux { return w.options.WebhookMux }

// Start implements manager.Runnable.
func (w *webhooks) Start(ctx context.Context) error {
	config := newTLS(w.options.TLSOpts)
	if config.GetCertificate == nil {
		files, err := certwatcher.New(filepath.Join(w.options.CertDir, w.options.CertName),
			filepath.Join(w.options.CertDir, w.options.KeyName))
		if err != nil {
			return fmt.Errorf("loading the webhooks' certificate: %w", err)
		}
		config.GetCertificate = files.GetCertificate
		go func() {
			if err := files.Start(ctx); err != nil {
				log.FromContext(ctx).Error(err, "following the webhooks' certificate")
			}
		}()
	}
	address := net.JoinHostPort(w.options.Host, strconv.Itoa(w.options.Port))
	listener, err := connections.Listen(ctx, address, webhookConnections)
	if err != nil {
		return err
	}
	w.serving.Store(config)
	logger := log.FromContext(ctx).WithName("webhooks")
	return (&manager.Server{
		Name:            "webhooks",
		Server:          New(ctx, limitBodies(w.options.WebhookMux, w.clock), logger),
		Listener:        tls.NewListener(listener, config),
		ShutdownTimeout: new(requestTimeout),
	}).Start(ctx)
}

// StartedChecker implements webhook.Server. It succeeds once there is a certificate. It opens no
// connection, so neither does each request for /readyz.
func (w *webhooks) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		config := w.serving.Load()
		if config == nil {
			return errors.New("webhook server has not been started yet")
		}
		if _, err := config.GetCertificate(&tls.ClientHelloInfo{}); err != nil {
			return fmt.Errorf("webhook server has no certificate: %w", err)
		}
		return nil
	}
}
