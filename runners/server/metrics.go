package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"leasehold.dev/runners/connections"
)

// pageConnections bounds the connections to the metrics, and to the probes. Their clients are a
// kubelet and a few scrapers.
const pageConnections = 512

// reviewsAtOnce bounds the requests whose credentials are reviewed at the same time.
const reviewsAtOnce = 4

// AddProbes adds a server for /healthz and /readyz, and for each check by its name.
func AddProbes(ctx context.Context, mgr manager.Manager, address string, live, ready map[string]healthz.Checker) error {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": live, "/readyz": ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return addPages(ctx, mgr, "health probe", address, nil, mux)
}

// AddMetrics adds a server for the metrics, and for more pages by their paths, all behind the filter
// of the options. It takes the options of controller-runtime's server, which has no bound.
func AddMetrics(ctx context.Context, mgr manager.Manager, o metricsserver.Options,
	pages map[string]http.Handler) error {
	mux := http.NewServeMux()
	all := map[string]http.Handler{"/metrics": promhttp.HandlerFor(metrics.Registry,
		promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})}
	maps.Copy(all, pages)
	filter := func(_ string, page http.Handler) (http.Handler, error) { return page, nil }
	if o.FilterProvider != nil {
		provided, err := o.FilterProvider(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return fmt.Errorf("building the filter of the metrics: %w", err)
		}
		filter = func(path string, page http.Handler) (http.Handler, error) {
			return provided(mgr.GetLogger().WithName("metrics").WithValues("path", path), page)
		}
	}
	reviews := newTurns(reviewsAtOnce)
	for path, page := range all {
		filtered, err := takeTurns(reviews, page, func(page http.Handler) (http.Handler, error) { return filter(path, page) })
		if err != nil {
			return fmt.Errorf("filtering requests for %s: %w", path, err)
		}
		mux.Handle(path, filtered)
	}
	var config *tls.Config
	if o.SecureServing {
		var err error
		if config, err = metricsTLS(mgr, o); err != nil {
			return err
		}
	}
	return addPages(ctx, mgr, "metrics", o.BindAddress, config, mux)
}

// takeTurns limits the requests that a filter reviews at the same time. The attacker makes up tokens,
// each of which costs a request to the API server. The filter's client has a rate limit, in whose
// queue the tokens of scrapers would wait for all of the attacker's.
func takeTurns(reviews *turns, page http.Handler,
	filter func(http.Handler) (http.Handler, error)) (http.Handler, error) {
	filtered, err := filter(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if release, ok := request.Context().Value(reviewKey{}).(func()); ok {
			release() // a client that reads slowly holds no place
		}
		page.ServeHTTP(response, request)
	}))
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), requestTimeout)
		defer cancel()
		if err := reviews.acquire(ctx, flow{host: connections.HostOf(request.RemoteAddr)}, 1); err != nil {
			refuse(response, "too many requests at once", http.StatusServiceUnavailable)
			return
		}
		release := sync.OnceFunc(func() { reviews.release(1) })
		defer release()
		filtered.ServeHTTP(response, request.WithContext(context.WithValue(request.Context(), reviewKey{}, release)))
	}), nil
}

type reviewKey struct{}

// metricsTLS returns the configuration with the certificate of the files, or with one that the
// manager signs itself.
func metricsTLS(mgr manager.Manager, o metricsserver.Options) (*tls.Config, error) {
	config := newTLS(o.TLSOpts)
	if o.CertDir != "" {
		files, err := certwatcher.New(filepath.Join(o.CertDir, o.CertName), filepath.Join(o.CertDir, o.KeyName))
		if err != nil {
			return nil, fmt.Errorf("loading the metrics' certificate: %w", err)
		}
		if err := mgr.Add(files); err != nil {
			return nil, fmt.Errorf("following the metrics' certificate: %w", err)
		}
		config.GetCertificate = files.GetCertificate
		return config, nil
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{{127, 0, 0, 1}}, nil)
	if err != nil {
		return nil, fmt.Errorf("signing the metrics' certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("parsing the metrics' certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

func newTLS(options []func(*tls.Config)) *tls.Config {
	config := &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	for _, option := range options {
		option(config)
	}
	return config
}

// addPages adds a server of requests that need no body. It runs on each replica, and until the
// manager has stopped everything else.
func addPages(ctx context.Context, mgr manager.Manager, name, address string, config *tls.Config,
	pages http.Handler) error {
	bounded, err := connections.Listen(ctx, address, pageConnections)
	if err != nil {
		return fmt.Errorf("serving %s: %w", name, err)
	}
	listener := net.Listener(bounded)
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	server := New(context.WithoutCancel(ctx), withoutBodies(pages), mgr.GetLogger().WithName(name))
	if err := mgr.Add(&manager.Server{
		Name: name, Server: server, Listener: listener,
		ShutdownTimeout: new(requestTimeout),
	}); err != nil {
		return fmt.Errorf("adding the server of %s: %w", name, err)
	}
	return nil
}

// withoutBodies records that the requests without a body are complete. net/http waits for any other
// body after the response.
func withoutBodies(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.ContentLength == 0 {
			connections.Complete(request)
		}
		pages.ServeHTTP(response, request)
	})
}
