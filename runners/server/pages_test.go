package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// runnables is a manager that collects what is added.
type runnables struct {
	manager.Manager
	added []manager.Runnable
}

func (r *runnables) Add(a manager.Runnable) error {
	r.added = append(r.added, a)
	return nil
}
func (*runnables) GetLogger() logr.Logger      { return logr.Discard() }
func (*runnables) GetConfig() *rest.Config     { return &rest.Config{} }
func (*runnables) GetHTTPClient() *http.Client { return nil }

// start starts what was added, until the test ends. It returns the address of the pages, which are
// added last.
func (r *runnables) start(t *testing.T) string {
	t.Helper()
	for _, a := range r.added {
		run(t, a)
	}
	last := r.added[len(r.added)-1].(*manager.Server)
	if last.NeedLeaderElection() {
		t.Error("the pages are served on the leader only")
	}
	return last.Listener.Addr().String()
}

// run starts a runnable, which has to end without an error at the end of the test.
func run(t *testing.T, r manager.Runnable) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%T ended: %v", r, err)
		}
	})
}

// certificate writes a certificate and its key into a folder.
func certificate(t *testing.T) (dir string, cert *x509.Certificate) {
	t.Helper()
	dir = t.TempDir()
	chain, key, err := certutil.GenerateSelfSignedCertKey("metrics.test", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": chain, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	block, _ := pem.Decode(chain)
	if cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return dir, cert
}

// page returns the status and the body of a page, and the state of the connection where it is secure.
func page(t *testing.T, url, token string) (status int, body string, state *tls.ConnectionState) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(all), response.TLS
}

func TestProbes(t *testing.T) {
	mgr := &runnables{}
	if err := AddProbes(t.Context(), mgr, "127.0.0.1:0", map[string]healthz.Checker{"ping": healthz.Ping},
		map[string]healthz.Checker{"caches": func(*http.Request) error { return errors.New("not yet") }}); err != nil {
		t.Fatal(err)
	}
	address := mgr.start(t)
	for path, want := range map[string]int{
		"/healthz": 200, "/healthz/": 200, "/healthz/ping": 200,
		"/readyz": 500, "/readyz/caches": 500, "/readyz/ping": 404, "/": 404,
	} {
		if status, body, _ := page(t, "http://"+address+path, ""); status != want {
			t.Errorf("%s: status %d, want %d; %s", path, status, want, body)
		}
	}
}

func TestMetrics(t *testing.T) {
	files, own := certificate(t)
	onlyGood := func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		return func(_ logr.Logger, page http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer good" {
					http.Error(w, "Unauthorized", http.StatusUnauthorized)
					return
				}
				page.ServeHTTP(w, r)
			}), nil
		}, nil
	}
	pages := map[string]http.Handler{"/debug": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "certwatcher_read_certificate_total of a page")
	})}
	for name, test := range map[string]struct {
		options metricsserver.Options
		bad     int // the status without the right token
		cert    *x509.Certificate
	}{
		"plain":       {metricsserver.Options{}, 200, nil},
		"self-signed": {metricsserver.Options{SecureServing: true, FilterProvider: onlyGood}, 401, nil},
		"files": {metricsserver.Options{SecureServing: true, FilterProvider: onlyGood,
			CertDir: files, CertName: "tls.crt", KeyName: "tls.key",
			TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }}}, 401, own},
	} {
		t.Run(name, func(t *testing.T) {
			mgr := &runnables{}
			test.options.BindAddress = "127.0.0.1:0"
			if err := AddMetrics(t.Context(), mgr, test.options, pages); err != nil {
				t.Fatal(err)
			}
			url := "http://" + mgr.start(t)
			if test.options.SecureServing {
				url = strings.Replace(url, "http:", "https:", 1)
			}
			for _, path := range []string{"/metrics", "/debug"} {
				if status, _, _ := page(t, url+path, "bad"); status != test.bad {
					t.Errorf("%s: status %d with a bad token, want %d", path, status, test.bad)
				}
				status, body, state := page(t, url+path, "good")
				if status != http.StatusOK || !strings.Contains(body, "certwatcher_read_certificate_total") {
					t.Errorf("%s: status %d with a good token, %s", path, status, body)
				}
				if test.cert != nil && (!state.PeerCertificates[0].Equal(test.cert) || state.Version != tls.VersionTLS12) {
					t.Errorf("%s is served by TLS %x with %v", path, state.Version, state.PeerCertificates[0].Subject)
				}
			}
		})
	}
}

func TestPagesThatCannotBeServed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, options := range map[string]metricsserver.Options{
		"loading the metrics' certificate:": {SecureServing: true, CertDir: t.TempDir(), CertName: "a", KeyName: "b"},
		"building the filter of the metrics: no": {
			FilterProvider: func(*rest.Config, *http.Client) (metricsserver.Filter, error) { return nil, errors.New("no") }},
		"filtering requests for /metrics: no": {
			FilterProvider: func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
				return func(logr.Logger, http.Handler) (http.Handler, error) { return nil, errors.New("no") }, nil
			}},
		"serving metrics:": {BindAddress: taken.Addr().String()},
	} {
		mgr := &runnables{}
		if err := AddMetrics(t.Context(), mgr, options, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("AddMetrics() = %v, want %s", err, want)
		}
		if len(mgr.added) != 0 {
			t.Errorf("%s: %d runnables were added", want, len(mgr.added))
		}
	}
}

// The check of webhooks tells a server that has not started from one that has no certificate, and
// from one that serves. The certificate comes from the options, or else from files.
func TestWebhooksAreReadyWithTheirCertificate(t *testing.T) {
	files, _ := certificate(t)
	issued := make(chan struct{})
	source := func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			select {
			case <-issued:
				return &tls.Certificate{}, nil
			default:
				return nil, errors.New("not issued")
			}
		}
	}
	for name, options := range map[string]webhook.Options{
		"files":   {CertDir: files, CertName: "tls.crt", KeyName: "tls.key"},
		"options": {TLSOpts: []func(*tls.Config){source}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			options.Host = "127.0.0.1"
			s := Webhooks(options, clock.RealClock{})
			if s.WebhookMux() == nil {
				t.Error("there is no mux")
			}
			ready := s.StartedChecker()
			if err := ready(nil); err == nil || !strings.Contains(err.Error(), "not been started") {
				t.Errorf("before its start the check is %v", err)
			}
			run(t, s)
			if name == "options" {
				g.Eventually(func() error { return ready(nil) }).WithTimeout(time.Minute).Should(
					MatchError(HaveSuffix("no certificate: not issued")))
				close(issued)
			}
			g.Eventually(func() error { return ready(nil) }).WithTimeout(time.Minute).Should(Succeed())
		})
	}
}

func TestWebhooksThatCannotBeServed(t *testing.T) {
	files, _ := certificate(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, options := range map[string]webhook.Options{
		"loading the webhooks' certificate:": {CertDir: t.TempDir(), CertName: "a", KeyName: "b"},
		"listening": {Host: "127.0.0.1", Port: taken.Addr().(*net.TCPAddr).Port,
			CertDir: files, CertName: "tls.crt", KeyName: "tls.key"},
	} {
		s := Webhooks(options, clock.RealClock{})
		if err := s.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Start() = %v, want %s", err, want)
		}
		if s.StartedChecker()(nil) == nil {
			t.Errorf("%s: the check succeeds", want)
		}
	}
}
