package run

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

// Each request is held until the attack ends, and one that is answered is sent again.
func TestSlowBodies(t *testing.T) {
	for name, tc := range map[string]struct {
		hook   http.HandlerFunc
		awaits bool
	}{
		"Held": {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, true},
		"Answered": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, 1)
		}, true},
		"Refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			received := make(chan string, 99)
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case received <- r.Method + r.URL.String():
				default: // the test needs no more
				}
				tc.hook(w, r)
			}))
			defer server.Close()
			b := newSlowBodies(clock.RealClock{}, 4<<20)
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				b.holdAll(ctx, []string{server.URL + "/a?timeout=24h", server.URL + "/b?timeout=24h"})
			}()
			g.Expect([]string{<-received, <-received}).To(ConsistOf("POST/a?timeout=24h", "POST/b?timeout=24h"))
			if name != "Held" {
				g.Eventually(received, testTimeout).Should(Receive(), "it is sent again")
			}
			if tc.awaits {
				g.Eventually(b.awaits.Load, testTimeout).Should(BeNumerically(">=", 2))
			}
			end()
			g.Eventually(ended, testTimeout).Should(BeClosed())
			if !tc.awaits {
				g.Expect(b.awaits.Load()).To(BeZero())
			}
		})
	}
}
