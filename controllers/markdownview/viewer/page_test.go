// SPDX-License-Identifier: Apache-2.0

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
	made := page{html: make([]byte, maxCacheBytes/2)}
	first, second := &book{version: "1"}, &book{version: "2"}
	p := newPageRenderer("", "")
	for i, step := range []struct {
		b    *book
		file string
		made page
		kept bool
	}{
		{first, "a.md", made, true},
		{first, "b.md", made, true},
		{first, "c.md", page{html: []byte("x")}, false},
		{second, "a.md", made, true},
		{second, "b.md", page{html: make([]byte, maxCacheBytes/2+1)}, false},
		{second, "c.md", made, true},
	} {
		if kept := p.keep(step.b, step.file, step.made); kept != step.kept {
			t.Errorf("step %d: %s of version %s is kept: %t, want %t", i, step.file, step.b.version, kept, step.kept)
		}
		if _, found := p.find(step.b, step.file); found != step.kept {
			t.Errorf("step %d: %s of version %s is found: %t, want %t", i, step.file, step.b.version, found, step.kept)
		}
	}
	if _, found := p.find(first, "a.md"); found || p.cached != maxCacheBytes {
		t.Errorf("a page of a former version is found: %t; %d bytes are counted, want %d", found, p.cached, maxCacheBytes)
	}
}

// Pages beyond the cache wait for each other until they are sent: 250 clients that read 8 MiB slowly
// took the viewer beyond its memory limit. Cached pages wait for nothing, also while one is made.
func TestPagesBeyondTheCacheTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{version: "1", files: map[string][]byte{"a.md": []byte("text"), "b.md": []byte("text")}}
		p := newPageRenderer("", "")
		for range 2 {
			_, _, err := p.hold(t.Context(), b, "a.md") // is never sent
			must(t, err)
		}
		p.cached = maxCacheBytes
		_, sent, err := p.hold(t.Context(), b, "b.md")
		must(t, err)
		if _, _, err := p.hold(t.Context(), b, "b.md"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one page more returns %v, want the end of the wait", err)
		}
		_, _, err = p.hold(t.Context(), b, "a.md")
		must(t, err)
		go func() {
			<-time.After(placeTimeout / 2)
			sent()
		}()
		_, _, err = p.hold(t.Context(), b, "b.md")
		must(t, err)
	})
}

// A reader who gets no place in time receives a notice.
func TestReadersWithoutAPlaceGetANotice(t *testing.T) {
	p := newPageRenderer("", "")
	p.place <- struct{}{}
	s := &site{books: &bookCache{dir: newMount(t, sample()).dir}, renderer: p,
		log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // instead of the wait
	response := httptest.NewRecorder()
	s.handler().ServeHTTP(response, httptest.NewRequestWithContext(ctx, http.MethodGet, "/one.html", nil))
	got := response.Body.String()
	if response.Code != http.StatusServiceUnavailable || !strings.Contains(got, "Too many") {
		t.Errorf("%d %s", response.Code, got)
	}
}
