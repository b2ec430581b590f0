// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
)

const (
	// eventually is the timeout for conditions that take well under a second.
	eventually = 30 * time.Second
	// moment is the time for which a test observes that something does not happen.
	moment = 100 * time.Millisecond
)

// service is an upstream that records its requests and answers "done".
type service struct {
	*httptest.Server

	mu   sync.Mutex
	seen []string
}

func startService(t *testing.T) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the proxy has given up, and nothing was carried out
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
		_, _ = io.WriteString(w, "done") // the client may have closed the connection
	}))
	t.Cleanup(s.Close)
	return s
}

// requests returns what the service has carried out so far.
func (s *service) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// startProxy starts a proxy that leaves nothing behind at the end of the test.
func startProxy(t *testing.T, o Options) *Proxy {
	t.Helper()
	g := NewWithT(t)
	before := goleak.IgnoreCurrent()
	p, err := NewProxy(o)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		g.Expect(p.Close()).To(Succeed())
		// An informer of client-go 0.31 retries its list with a context that nobody cancels.
		retrying := goleak.IgnoreAnyFunction("k8s.io/client-go/rest.(*NoBackoff).Sleep")
		g.Expect(goleak.Find(before, retrying)).To(Succeed())
	})
	return p
}

// newClient returns a client that keeps no connection and does not wait for ever.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       eventually,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answer is a client's response.
type answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error
}

// ask sends one request and reads the whole response.
func ask(ctx context.Context, p *Proxy, method, path, body string) answer {
	request, err := http.NewRequestWithContext(ctx, method, p.URL()+path, strings.NewReader(body))
	if err != nil {
		return answer{Err: err}
	}
	response, err := newClient().Do(request)
	if err != nil {
		return answer{Err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{Status: response.StatusCode, Header: response.Header, Body: string(text), Err: err}
}

// askInBackground sends one request and delivers the answer later.
func askInBackground(ctx context.Context, p *Proxy, method, path, body string) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- ask(ctx, p, method, path, body) }()
	return answers
}
