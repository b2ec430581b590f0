package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A folder at each limit is served; one byte or file more is an error.
func TestFolderIsBounded(t *testing.T) {
	const list = "# Book\n"
	full := strings.Repeat("x", maxFileBytes)
	for name, tc := range map[string]struct {
		files map[string]string
		shown bool
	}{
		"the largest file": {map[string]string{"a.md": full}, true},
		"one byte more":    {map[string]string{"a.md": full + "x"}, false},
		"the largest book": {map[string]string{"a.md": full, "b.md": full, "c.md": full, "d.md": full[len(list):]},
			true},
		"one byte more in total": {map[string]string{"a.md": full, "b.md": full, "c.md": full,
			"d.md": full[len(list)-1:]}, false},
		"the most files": {manyFiles(maxFiles - 1), true}, // and SUMMARY.md
		"one file more":  {manyFiles(maxFiles), false},
		"ignored files":  {map[string]string{"a.txt": full + full + full + full + full}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "SUMMARY.md"), []byte(list), 0o600))
			for file, content := range tc.files {
				must(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
			}
			if _, err := (&bookCache{dir: dir}).current(); (err == nil) != tc.shown {
				t.Errorf("%v, want a book: %t", err, tc.shown)
			}
		})
	}
}

func manyFiles(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("%d.md", i)] = ""
	}
	return files
}

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
func TestReadersWithoutAPlaceAreTold(t *testing.T) {
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

// Each error of the folder is logged once, however often it occurs, and so is its end.
func TestEachErrorIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	summary := filepath.Join(dir, "SUMMARY.md")
	s := &site{books: &bookCache{dir: dir}, renderer: &pageRenderer{}, log: slog.New(slog.NewTextHandler(&out, nil))}
	for _, step := range []struct {
		change func() error
		want   string // in the one line that is logged; "" for none
	}{
		{func() error { return nil }, "level=ERROR"},
		{func() error { return os.WriteFile(summary, []byte(strings.Repeat("x", maxFileBytes+1)), 0o600) },
			"it holds more than"},
		{func() error { return os.WriteFile(summary, []byte("# Book"), 0o600) }, "level=INFO"},
		{func() error { return os.WriteFile(summary, []byte("# Another book"), 0o600) }, ""},
		{func() error { return os.Remove(summary) }, "level=ERROR"},
	} {
		must(t, step.change())
		out.Reset()
		for range 3 {
			_, _ = s.book() // only the log matters
		}
		lines := strings.Count(out.String(), "\n")
		if want := min(len(step.want), 1); lines != want || !strings.Contains(out.String(), step.want) {
			t.Errorf("logged %q, want %d lines with %q", out.String(), want, step.want)
		}
	}
}
