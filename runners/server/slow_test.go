package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
