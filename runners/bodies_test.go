// SPDX-License-Identifier: Apache-2.0

package runners_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/runners"
)

// admission is a webhook server whose hook reads the body, reports its arrival and waits to be released.
type admission struct {
	*httptest.Server
	arrived  chan int
	released chan struct{}
}

func newAdmission(t *testing.T, c clock.PassiveClock) admission {
	t.Helper()
	a := admission{arrived: make(chan int, 100), released: make(chan struct{})}
	server := webhook.NewServer(webhook.Options{})
	bounded := runners.BoundBodies(server, map[string]int64{"/hook": 7 << 20}, c)
	bounded.Register("/hook", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.arrived <- len(body)
		<-a.released
	}))
	a.Server = httptest.NewServer(server.WebhookMux())
	t.Cleanup(a.Close)
	return a
}

// post sends a body of a size, of which the server knows the length if it is told, and returns the status.
func (a admission) post(ctx context.Context, size int, known bool) chan int {
	status := make(chan int, 1)
	go func() {
		var body io.Reader = bytes.NewReader(make([]byte, size))
		if !known {
			body = io.MultiReader(body)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+"/hook", body)
		if err != nil {
			status <- 0
			return
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			status <- 0
			return
		}
		status <- answer.StatusCode
		_ = answer.Body.Close()
	}()
	return status
}

// Two large bodies fit at once, a third waits, and a body of unknown length takes all room. Small ones never wait.
func TestBoundBodies(t *testing.T) {
	for name, tc := range map[string]struct {
		first []int
		known bool
	}{
		"two large bodies":         {[]int{3 << 20, 3 << 20}, true},
		"a body of unknown length": {[]int{1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdmission(t, clock.RealClock{})
			var answers []chan int
			for _, size := range tc.first {
				answers = append(answers, a.post(t.Context(), size, tc.known))
			}
			for range tc.first {
				<-a.arrived
			}
			answers = append(answers, a.post(t.Context(), 2<<20, true))
			for range 20 {
				answers = append(answers, a.post(t.Context(), 64<<10, true))
			}
			for range 20 {
				if size := <-a.arrived; size != 64<<10 {
					t.Fatalf("a body of %d bytes did not wait", size)
				}
			}
			close(a.released)
			for _, answer := range answers {
				if status := <-answer; status != http.StatusOK {
					t.Errorf("status %d, want 200", status)
				}
			}
			select {
			case size := <-a.arrived:
				if size != 2<<20 {
					t.Errorf("then a body of %d bytes arrived", size)
				}
			default:
				t.Error("the last body did not arrive")
			}
		})
	}
}

// A client that gives up does not keep its place.
func TestBoundBodies_client_gives_up(t *testing.T) {
	a := newAdmission(t, clock.RealClock{})
	first := a.post(t.Context(), 7<<20, true)
	<-a.arrived
	impatient, giveUp := context.WithCancel(t.Context())
	second := a.post(impatient, 1<<20, true)
	giveUp()
	if status := <-second; status != 0 {
		t.Errorf("status %d, want none", status)
	}
	third := a.post(t.Context(), 7<<20, true)
	close(a.released)
	<-a.arrived
	for _, answer := range []chan int{first, third} {
		if status := <-answer; status != http.StatusOK {
			t.Errorf("status %d, want 200", status)
		}
	}
}

// unserved is a webhook server without a listener.
type unserved struct{ webhook.Server }

func (unserved) Start(context.Context) error { return nil }

// When the manager stops, it cancels the contexts of all requests. Reviews that have arrived are answered, also the
// one that waits for room. If the client leaves before, its reviews end.
func TestBoundBodies_stopping(t *testing.T) {
	for name, tc := range map[string]struct {
		stops bool
		want  []int
	}{
		"the manager stops": {true, []int{http.StatusOK, http.StatusOK}},
		"the client leaves": {false, []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, release := unserved{webhook.NewServer(webhook.Options{})}, make(chan struct{})
				bounded := runners.BoundBodies(server, map[string]int64{"/hook": 7 << 20}, clock.RealClock{})
				bounded.Register("/hook", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-r.Context().Done():
						w.WriteHeader(http.StatusGatewayTimeout)
					case <-release:
					}
				}))
				manager, stop := context.WithCancel(t.Context())
				defer stop()
				if err := bounded.Start(manager); err != nil {
					t.Fatal(err)
				}
				answers := make(chan int, 2)
				post := func() (leave func()) {
					client, leave := context.WithCancel(manager)
					go func() {
						answer := httptest.NewRecorder()
						server.WebhookMux().ServeHTTP(answer, httptest.NewRequestWithContext(client, http.MethodPost, "/hook",
							strings.NewReader(strings.Repeat(" ", 7<<20))))
						answers <- answer.Code
					}()
					synctest.Wait()
					return leave
				}
				runs, waits := post(), post()
				if tc.stops {
					stop()
					synctest.Wait()
					close(release)
				} else {
					waits()
					synctest.Wait()
					runs()
				}
				if got := []int{<-answers, <-answers}; !slices.Equal(got, tc.want) {
					t.Errorf("status %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// A client that stops sending loses its room after 10 s. The clock is behind, so the deadline passes at once.
func TestBoundBodies_slow_body(t *testing.T) {
	a := newAdmission(t, testingclock.NewFakePassiveClock(time.Now().Add(-11*time.Second)))
	slow, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if err := slow.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(slow, "POST /hook HTTP/1.1\r\nHost: a\r\nContent-Length: 7000000\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(io.LimitReader(slow, 12))
	if err != nil || string(answer) != "HTTP/1.1 400" {
		t.Errorf("the server answers %q (%v), want that the body did not arrive", answer, err)
	}
	select {
	case size := <-a.arrived:
		t.Errorf("a body of %d bytes arrived", size)
	default:
	}
}

// A review whose length exceeds its limit waits for no room: there may never be enough. The client has left, so that a
// wait would end.
func TestBoundBodies_refuses_by_length(t *testing.T) {
	server := webhook.NewServer(webhook.Options{})
	runners.BoundBodies(server, nil, clock.RealClock{}).Register("/hook", http.NotFoundHandler())
	ctx, leave := context.WithCancel(t.Context())
	leave()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/hook", http.NoBody)
	request.ContentLength = 8 << 20
	answer := httptest.NewRecorder()
	server.WebhookMux().ServeHTTP(answer, request)
	if answer.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %s, want %d", answer.Code, answer.Body, http.StatusRequestEntityTooLarge)
	}
}

// A review is refused by its bytes, whatever length the client tells, and by its values, before the hook
// sees it. What strings contain is no value.
func TestBoundBodies_limits(t *testing.T) {
	const most = 1 << 15
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]" }
	text := `{"a":"` + strings.Repeat(`,[{\",`, 1<<15) + `"}`
	for name, tc := range map[string]struct {
		path, body string
		known      bool
		status     int
		answer     string
	}{
		"at the default":               {"/other", strings.Repeat(" ", 1<<20), true, 200, ""},
		"above the default":            {"/other", strings.Repeat(" ", 1<<20+1), true, 413, "more than 1048576 bytes"},
		"above, of unknown length":     {"/other", strings.Repeat(" ", 1<<20+1), false, 413, "more than 1048576 bytes"},
		"at a limit of the path":       {"/hook", strings.Repeat(" ", 2<<20), false, 200, ""},
		"above a limit of the path":    {"/hook", strings.Repeat(" ", 2<<20+1), false, 413, "more than 2097152 bytes"},
		"as many values as may be":     {"/other", list(most / 2), true, 200, ""},
		"one value more":               {"/other", list(most/2) + "{", true, 413, "has 32769 values, more than the limit of 32768"},
		"strings with commas, escaped": {"/other", text, true, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := webhook.NewServer(webhook.Options{})
			bounded := runners.BoundBodies(server, map[string]int64{"/hook": 2 << 20}, clock.RealClock{})
			got := ""
			hook := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = string(body)
			})
			bounded.Register("/hook", hook)
			bounded.Register("/other", hook)
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tc.path, strings.NewReader(tc.body))
			if !tc.known {
				request.ContentLength = -1
			}
			answer := httptest.NewRecorder()
			server.WebhookMux().ServeHTTP(answer, request)
			if answer.Code != tc.status || !strings.Contains(answer.Body.String(), tc.answer) ||
				(got == tc.body) != (tc.status == 200) {
				t.Errorf("status %d: %s; the hook got %d bytes, want %d", answer.Code, answer.Body, len(got), len(tc.body))
			}
		})
	}
}
