package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// large is more than half of what is read at once of large bodies.
var large = strings.Repeat("x", 3<<20)

// gate is a webhook that reads its request, and responds when it is opened.
type gate struct {
	open   chan struct{}
	inside atomic.Int32
	read   atomic.Int64
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.inside.Add(1)
	defer g.inside.Add(-1)
	n, err := io.Copy(io.Discard, r.Body)
	g.read.Add(n)
	<-g.open
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func serve(hooks map[string]http.Handler) http.Handler {
	mux := http.NewServeMux()
	for path, hook := range hooks {
		mux.Handle(path, hook)
	}
	return limitBodies(mux, clock.RealClock{})
}

// post is a request of a client at host.
func post(host, url string, body io.Reader) *http.Request {
	request := httptest.NewRequest(http.MethodPost, url, body)
	request.RemoteAddr = host + ":1234"
	return request
}

func send(handler http.Handler, request *http.Request) *httptest.ResponseRecorder {
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response
}

// Large requests are read one after the other, and all are answered. Small ones, of this webhook and
// of another, do not wait for them.
func TestLargeRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views, tenants := newGate(), newGate()
		handler := serve(map[string]http.Handler{"/views": views, "/tenants": tenants})
		var answered atomic.Int32
		for range 200 {
			go func() {
				if send(handler, post("api", "/views?timeout=5s", strings.NewReader(large))).Code == http.StatusOK {
					answered.Add(1)
				}
			}()
		}
		synctest.Wait()
		if n := views.inside.Load(); n != 1 {
			t.Errorf("%d large requests are read at once, want 1", n)
		}
		for range smallAtOnce {
			go send(handler, post("api", "/tenants?timeout=5s", strings.NewReader("x")))
		}
		synctest.Wait()
		if n := tenants.inside.Load(); n != smallAtOnce {
			t.Errorf("%d small requests are read beside a large one, want %d", n, smallAtOnce)
		}
		go send(handler, post("api", "/tenants?timeout=5s", strings.NewReader("x")))
		synctest.Wait()
		if n := tenants.inside.Load(); n != smallAtOnce {
			t.Errorf("%d small requests are read at once, want %d", n, smallAtOnce)
		}
		close(tenants.open)
		close(views.open)
		synctest.Wait()
		if n := answered.Load(); n != 200 {
			t.Errorf("%d of 200 requests were answered", n)
		}
	})
}

// Between two requests of one client the webhook serves one of each other client, and of each other
// webhook.
func TestClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views, tenants := newGate(), newGate()
		handler := serve(map[string]http.Handler{"/views": views, "/tenants": tenants})
		for range 100 {
			go send(handler, post("attacker", "/views", strings.NewReader(large)))
		}
		synctest.Wait()
		answered := make(chan string, 2)
		for _, path := range []string{"/views", "/tenants"} {
			go func() {
				send(handler, post("api", path, strings.NewReader(large)))
				answered <- path
			}()
			synctest.Wait()
		}
		close(tenants.open)
		for range 3 { // the attacker's first, which was there before, her second, and the API server's
			views.open <- struct{}{}
			synctest.Wait()
		}
		for _, want := range []string{"/views", "/tenants"} {
			select {
			case <-answered:
			default:
				t.Errorf("a request such as of %s waits for more than two of an attacker", want)
			}
		}
		close(views.open)
	})
}

func TestWaitIsBounded(t *testing.T) {
	for url, want := range map[string]time.Duration{"/views?timeout=5s": 5 * time.Second, "/views": 10 * time.Second,
		"/views?timeout=x": 10 * time.Second, "/views?timeout=0s": 10 * time.Second,
		"/views?timeout=11s": 10 * time.Second, "/views?timeout=24h": 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			views := newGate()
			handler := serve(map[string]http.Handler{"/views": views})
			go send(handler, post("api", "/views", strings.NewReader(large)))
			synctest.Wait()
			began := time.Now()
			answer := send(handler, post("api", url, strings.NewReader(large)))
			if body := answer.Body.String(); answer.Code != http.StatusServiceUnavailable ||
				body != "too many requests at once\n" || answer.Header().Get("Connection") != "close" {
				t.Errorf("%s: answered %d %q, want 503, why, and the end of the connection", url, answer.Code, body)
			}
			if took := time.Since(began); took != want {
				t.Errorf("%s: waited %s, want %s", url, took, want)
			}
			close(views.open)
		})
	}
}

// A request that stops to wait leaves its place to the next one, also to one of another client.
func TestWaitEndsWithClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := newGate()
		handler := serve(map[string]http.Handler{"/views": views})
		go send(handler, post("api", "/views", strings.NewReader(large[:2<<20])))
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		waits := make(chan int)
		go func() {
			waits <- send(handler, post("gone", "/views", strings.NewReader(large)).WithContext(ctx)).Code
		}()
		synctest.Wait()
		go send(handler, post("api", "/views", strings.NewReader(large[:1<<20])))
		synctest.Wait()
		if n := views.inside.Load(); n != 1 {
			t.Errorf("%d requests are read, want 1 until the one before leaves", n)
		}
		leave()
		if code := <-waits; code != http.StatusServiceUnavailable {
			t.Errorf("answered %d, want 503", code)
		}
		synctest.Wait()
		if n := views.inside.Load(); n != 2 {
			t.Errorf("%d requests are read once the one between left, want 2", n)
		}
		close(views.open)
	})
}

// Large bodies of up to 4 MiB together are read at the same time, by their declared sizes. A body
// without a size is read alone. A larger one is refused.
func TestCapacityBySize(t *testing.T) {
	const unknown, half, all, least = -1, 2 << 20, 4 << 20, smallBody + 1
	for name, tc := range map[string]struct {
		first, second int64
		together      bool
	}{
		"two halves":                      {half, half, true},
		"a half and a byte more":          {half, half + 1, false},
		"all but little, and that":        {all - least, least, true},
		"all, and little":                 {all, least, false},
		"little, and all":                 {least, all, false},
		"two of unknown size":             {unknown, unknown, false},
		"one of unknown size, and little": {unknown, least, false},
		"little, and one of unknown size": {least, unknown, false},
		"all, and a small one":            {all, smallBody, true},
		"unknown, and a small one":        {unknown, smallBody, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				views := newGate()
				handler := serve(map[string]http.Handler{"/views": views})
				answers, sent := make(chan int, 2), int64(0)
				for _, size := range []int64{tc.first, tc.second} {
					length := size
					if size < 0 {
						length = least
					}
					sent += length
					go func() {
						request := post("api", "/views", strings.NewReader(strings.Repeat("x", int(length))))
						request.ContentLength = size
						answers <- send(handler, request).Code
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
				if got := views.read.Load(); got != sent {
					t.Errorf("the webhook read %d bytes of %d", got, sent)
				}
			})
		})
	}
	for size, want := range map[int64]int{4 << 20: http.StatusOK, 4<<20 + 1: http.StatusRequestEntityTooLarge} {
		views := newGate()
		close(views.open)
		request := post("api", "/views", strings.NewReader("x"))
		request.ContentLength = size
		if got := send(serve(map[string]http.Handler{"/views": views}), request).Code; got != want {
			t.Errorf("a declared size of %d: answered %d, want %d", size, got, want)
		}
	}
	views := newGate()
	close(views.open)
	endless := post("api", "/views", io.LimitReader(endlessBody{}, 1<<40))
	if got := send(serve(map[string]http.Handler{"/views": views}), endless).Code; got != http.StatusBadRequest ||
		views.read.Load() > 8<<20 {
		t.Errorf("an endless body: answered %d after %d bytes", got, views.read.Load())
	}
}

type endlessBody struct{}

func (endlessBody) Read(p []byte) (int, error) { return len(p), nil }

func TestUnknownPath(t *testing.T) {
	if got := send(serve(nil), post("api", "/other", strings.NewReader(large))).Code; got != http.StatusNotFound {
		t.Errorf("answered %d, want 404", got)
	}
}

// A decoded empty value needs a hundred times the memory of its text. Quoted text is not a value.
func TestValuesAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want int
	}{
		"as many as permitted":    {"[" + strings.Repeat("1,", maxValues-1) + "1]", http.StatusOK},
		"one more":                {"[" + strings.Repeat("1,", maxValues) + "1]", http.StatusBadRequest},
		"empty objects":           {"[" + strings.Repeat("{},", maxValues/2) + "{}]", http.StatusBadRequest},
		"empty lists":             {"[" + strings.Repeat("[],", maxValues/2) + "[]]", http.StatusBadRequest},
		"small, and of the most":  {strings.Repeat("[", smallBody), http.StatusOK},
		"quoted":                  {`["` + strings.Repeat(`,[{`, maxValues) + `"]`, http.StatusOK},
		"after a quoted mark":     {`["\"` + strings.Repeat(`,`, maxValues+1) + `"]`, http.StatusOK},
		"after a quoted \\":       {`["\\"` + strings.Repeat(`,1`, maxValues+1) + `]`, http.StatusBadRequest},
		"after the begin":         {`["` + strings.Repeat(`x`, smallBody) + `"` + strings.Repeat(`,1`, maxValues+1) + `]`, 400},
		"not after a quote's end": {`["\\","` + strings.Repeat(`,`, maxValues+1) + `"]`, http.StatusOK},
	} {
		hook := newGate()
		close(hook.open)
		handler := serve(map[string]http.Handler{"/views": hook})
		for way, body := range map[string]io.Reader{"at once": strings.NewReader(tc.body),
			"byte by byte": iotest.OneByteReader(strings.NewReader(tc.body))} {
			if answer := send(handler, post("api", "/views", body)); answer.Code != tc.want {
				t.Errorf("%s, %s: answered %d %.100q, want %d", name, way, answer.Code, answer.Body, tc.want)
			}
		}
	}
}

// connected is a response whose connection has a read deadline.
type connected struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (c *connected) SetReadDeadline(at time.Time) error { c.deadline = at; return nil }

// stalled is a body that stops after a large body's first bytes.
type stalled struct {
	of   *connected
	left int
}

func (s *stalled) Read(into []byte) (int, error) {
	if s.left == 0 {
		<-time.After(time.Until(s.of.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	n := min(s.left, len(into))
	s.left -= n
	return n, nil
}

// Attackers hold as many large bodies as there are webhooks, which stop after 32 KiB, and send the
// next one when one ends. The API server's large request is served within half of its 5 s.
func TestStalledBodiesDelayLargeRequestsBriefly(t *testing.T) {
	for attackers, most := range map[int]time.Duration{1: 2500 * time.Millisecond, 20: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			open := newGate()
			close(open.open)
			handler := serve(map[string]http.Handler{"/a": open, "/b": open, "/c": open})
			ended := make(chan struct{})
			var clients sync.WaitGroup
			for attacker := range attackers {
				for _, path := range []string{"/a", "/b", "/c"} {
					for range 2 {
						clients.Go(func() {
							for {
								select {
								case <-ended:
									return
								default:
								}
								response := &connected{ResponseRecorder: httptest.NewRecorder()}
								request := post(fmt.Sprint("attacker-", attacker), path, &stalled{response, smallBody + 1})
								request.ContentLength = largeAtOnce
								handler.ServeHTTP(response, request)
							}
						})
					}
				}
			}
			synctest.Wait()
			began := time.Now()
			got := send(handler, post("api", "/c?timeout=5s", strings.NewReader(large)))
			if took := time.Since(began); got.Code != http.StatusOK || took > most {
				t.Errorf("%d attackers: answered %d after %s, want 200 within %s", attackers, got.Code, took, most)
			}
			close(ended)
			clients.Wait()
		})
	}
}
