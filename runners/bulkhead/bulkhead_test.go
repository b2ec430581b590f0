package bulkhead_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/runners/bulkhead"
)

// large is more than half of the capacity of one webhook.
var large = strings.Repeat("x", 3<<20)

// gate is a webhook that responds when it is opened.
type gate struct {
	open   chan struct{}
	inside atomic.Int32
}

func (g *gate) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	g.inside.Add(1)
	<-g.open
	g.inside.Add(-1)
	w.WriteHeader(http.StatusOK)
}

func serve(hooks map[string]http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	server := bulkhead.Webhooks(webhook.NewServer(webhook.Options{WebhookMux: mux}))
	for path, hook := range hooks {
		server.Register(path, hook)
	}
	return mux
}

func send(mux http.Handler, url, body string) *httptest.ResponseRecorder {
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, httptest.NewRequest(http.MethodPost, url, strings.NewReader(body)))
	return response
}

func TestLargeRequestsWaitPerWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views, tenants := &gate{open: make(chan struct{})}, &gate{open: make(chan struct{})}
		mux := serve(map[string]http.Handler{"/views": views, "/tenants": tenants})
		var answered atomic.Int32
		for range 200 {
			go func() {
				if send(mux, "/views?timeout=5s", large).Code == http.StatusOK {
					answered.Add(1)
				}
			}()
		}
		go send(mux, "/tenants?timeout=5s", "x")
		synctest.Wait()
		if n := views.inside.Load(); n != 1 {
			t.Errorf("%d large requests are read at once, want 1", n)
		}
		if n := tenants.inside.Load(); n != 1 {
			t.Errorf("%d requests of the other webhook are read, want 1", n)
		}
		close(tenants.open)
		close(views.open)
		synctest.Wait()
		if n := answered.Load(); n != 200 {
			t.Errorf("%d of 200 requests were answered once there was room", n)
		}
	})
}

func TestSmallRequestsRunConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := &gate{open: make(chan struct{})}
		mux := serve(map[string]http.Handler{"/views": views})
		for range 100 {
			go send(mux, "/views", "x")
		}
		synctest.Wait()
		if n := views.inside.Load(); n != 100 {
			t.Errorf("%d of 100 small requests are read at once", n)
		}
		close(views.open)
	})
}

func TestWaitEndsWithTimeoutOfAPIServer(t *testing.T) {
	for url, want := range map[string]time.Duration{"/views?timeout=5s": 5 * time.Second, "/views": 10 * time.Second,
		"/views?timeout=x": 10 * time.Second, "/views?timeout=0s": 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			views := &gate{open: make(chan struct{})}
			mux := serve(map[string]http.Handler{"/views": views})
			go send(mux, "/views?timeout=1h", large)
			synctest.Wait()
			began := clock.RealClock{}.Now()
			answer := send(mux, url, large)
			if body := answer.Body.String(); answer.Code != http.StatusServiceUnavailable ||
				body != "too many large requests at once\n" {
				t.Errorf("%s: answered %d %q, want 503 and why", url, answer.Code, body)
			}
			if took := (clock.RealClock{}).Since(began); took != want {
				t.Errorf("%s: waited %s, want %s", url, took, want)
			}
			close(views.open)
		})
	}
}

// A request stops waiting when its client closes the connection.
func TestWaitEndsWithClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := &gate{open: make(chan struct{})}
		mux := serve(map[string]http.Handler{"/views": views})
		go send(mux, "/views?timeout=1h", large)
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		waits := make(chan struct{})
		go func() {
			defer close(waits)
			mux.ServeHTTP(httptest.NewRecorder(),
				httptest.NewRequestWithContext(ctx, http.MethodPost, "/views?timeout=1h", strings.NewReader(large)))
		}()
		synctest.Wait()
		began := clock.RealClock{}.Now()
		leave()
		<-waits
		if took := (clock.RealClock{}).Since(began); took != 0 {
			t.Errorf("it waited for %s more", took)
		}
		close(views.open)
	})
}

// Requests of up to 4 MiB together are read at the same time, by their declared sizes. A request
// without a size, or with a larger one, is read alone and not rejected.
func TestCapacityBySize(t *testing.T) {
	const unknown, half, all = -1, 2 << 20, 4 << 20
	for name, tc := range map[string]struct {
		first, second int64
		together      bool
	}{
		"two halves":                         {half, half, true},
		"a half and a byte more":             {half, half + 1, false},
		"all but a byte, and that":           {all - 1, 1, true},
		"all, and a byte":                    {all, 1, false},
		"all, and nothing":                   {all, 0, true},
		"more than all, and a byte":          {all + 1, 1, false},
		"a byte, and more than all":          {1, all + 1, false},
		"two of unknown size":                {unknown, unknown, false},
		"one of unknown size, and a byte":    {unknown, 1, false},
		"a byte, and one of unknown size":    {1, unknown, false},
		"one of unknown size, and more yet":  {unknown, all + 1, false},
		"much more than all, and of unknown": {1 << 40, unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				views := &gate{open: make(chan struct{})}
				mux := serve(map[string]http.Handler{"/views": views})
				answers := make(chan int, 2)
				for _, size := range []int64{tc.first, tc.second} {
					go func() {
						request := httptest.NewRequest(http.MethodPost, "/views", nil)
						request.ContentLength = size
						response := httptest.NewRecorder()
						mux.ServeHTTP(response, request)
						answers <- response.Code
					}()
					synctest.Wait()
				}
				if n := views.inside.Load(); (n == 2) != tc.together || n == 0 {
					t.Errorf("%d are read at once, want both: %t", n, tc.together)
				}
				close(views.open)
				for range 2 {
					if code := <-answers; code != http.StatusOK {
						t.Errorf("answered %d, want 200", code)
					}
				}
			})
		})
	}
}
