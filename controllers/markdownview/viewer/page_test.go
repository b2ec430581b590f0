package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The cache holds the pages of one version, up to its limit, and counts their bytes.
func TestPageCacheIsBounded(t *testing.T) {
	b := &book{version: "1", files: map[string][]byte{"a.md": []byte("text"), "b.md": []byte("text")}}
	size := func() int {
		p := &pageRenderer{}
		made, err := p.page(b, "a.md")
		must(t, err)
		if p.cached != len(made.html) || len(p.cache) != 1 {
			t.Errorf("%d bytes of %d pages are counted, want one of %d bytes", p.cached, len(p.cache), len(made.html))
		}
		return len(made.html)
	}()
	for room, want := range map[int]int{
		size - 1: 0, size: 1, size + 1: 1, 2*size - 1: 1, 2 * size: 2,
	} {
		p := &pageRenderer{version: "1", cache: map[string]page{}, cached: maxCacheBytes - room}
		for range 2 {
			for file := range b.files {
				_, err := p.page(b, file)
				must(t, err)
			}
		}
		if len(p.cache) != want || p.cached != maxCacheBytes-room+want*size {
			t.Errorf("with room for %d bytes %d pages of %d are kept and %d bytes counted, want %d", room, len(p.cache), size,
				p.cached, want)
		}
		_, err := p.page(&book{version: "2", files: b.files}, "a.md")
		must(t, err)
		if len(p.cache) != 1 || p.cached != size {
			t.Errorf("of another version %d pages are kept and %d bytes counted, want the first", len(p.cache), p.cached)
		}
	}
}

// Pages beyond the cache wait for each other until they are sent: 250 clients that read 8 MiB slowly took
// the viewer beyond its memory limit. Cached pages wait for nothing.
func TestPagesBeyondTheCacheTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{version: "1", files: map[string][]byte{"a.md": []byte("text"), "b.md": []byte("text")}}
		p := &pageRenderer{}
		for range 2 * maxUncached {
			_, _, err := p.hold(t.Context(), b, "a.md") // is never sent
			must(t, err)
		}
		p.cached = maxCacheBytes
		var all []func()
		for range maxUncached {
			_, sent, err := p.hold(t.Context(), b, "b.md")
			must(t, err)
			all = append(all, sent)
		}
		if _, _, err := p.hold(t.Context(), b, "b.md"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one page more returns %v, want the end of the wait", err)
		}
		_, _, err := p.hold(t.Context(), b, "a.md")
		must(t, err)
		go func() {
			<-time.After(placeTimeout / 2)
			all[0]()
		}()
		_, _, err = p.hold(t.Context(), b, "b.md")
		must(t, err)
	})
}

// A reader who gets no place in time receives a notice.
func TestReadersWithoutAPlaceGetANotice(t *testing.T) {
	m := newMount(t, sample())
	p := &pageRenderer{version: "1", cached: maxCacheBytes, places: make(chan struct{})}
	s := &site{books: &bookCache{dir: m.dir}, renderer: p, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // instead of the wait
	response := httptest.NewRecorder()
	s.handler().ServeHTTP(response, httptest.NewRequestWithContext(ctx, http.MethodGet, "/one.html", nil))
	got := response.Body.String()
	if response.Code != http.StatusServiceUnavailable || !strings.Contains(got, "Too many") {
		t.Errorf("%d %s", response.Code, got)
	}
}
