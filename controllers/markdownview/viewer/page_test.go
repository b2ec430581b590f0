// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A book keeps its pages up to a limit, and counts their bytes.
func TestPageCacheIsBounded(t *testing.T) {
	half := page{html: make([]byte, maxCacheBytes/2)}
	b := &book{pages: map[string]page{}}
	for i, step := range []struct {
		file string
		made page
		kept bool
	}{
		{"a.md", half, true},
		{"b.md", page{html: make([]byte, maxCacheBytes/2+1)}, false},
		{"c.md", half, true},
		{"d.md", page{html: []byte("x")}, false},
	} {
		b.keep(step.file, step.made)
		if _, found := b.find(step.file); found != step.kept {
			t.Errorf("step %d: %s is found: %t, want %t", i, step.file, found, step.kept)
		}
	}
	if b.cached != maxCacheBytes {
		t.Errorf("%d bytes are counted, want %d", b.cached, maxCacheBytes)
	}
}

// A page that takes long has a deadline, and is cached when it is ready. Meanwhile cached pages wait for
// nothing, and others for the slot.
func TestPagesHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{pages: map[string]page{}, files: map[string][]byte{"a.md": nil, "slow.md": []byte("slow"), "c.md": nil}}
		p := newPageRenderer("", "")
		p.convert = func(markdown []byte) []byte {
			if len(markdown) > 0 {
				<-time.After(pageTimeout * 5 / 2)
			}
			return markdown
		}
		ask := func(file string) (time.Duration, error) {
			began := time.Now()
			_, err := p.page(t.Context(), b, file)
			return time.Since(began), err
		}
		for _, step := range []struct {
			file  string
			waits time.Duration
			err   error
		}{
			{"a.md", 0, nil},
			{"slow.md", pageTimeout, context.DeadlineExceeded},
			{"a.md", 0, nil},
			{"c.md", pageTimeout, context.DeadlineExceeded},
			{"c.md", pageTimeout / 2, nil},
			{"slow.md", 0, nil},
		} {
			if waited, err := ask(step.file); waited != step.waits || !errors.Is(err, step.err) {
				t.Errorf("%s: %v after %s, want %v after %s", step.file, err, waited, step.err, step.waits)
			}
		}
	})
}

// One page is rendered at a time, however many readers ask, and once for all of them.
func TestPagesAreRenderedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{pages: map[string]page{}, files: map[string][]byte{"a.md": nil, "b.md": nil}}
		p := newPageRenderer("", "")
		var running, calls atomic.Int32
		p.convert = func(markdown []byte) []byte {
			if running.Add(1) > 1 {
				t.Error("two pages are rendered at a time")
			}
			<-time.After(time.Second)
			calls.Add(1)
			running.Add(-1)
			return markdown
		}
		var readers sync.WaitGroup
		for i := range 100 {
			readers.Go(func() {
				if _, err := p.page(t.Context(), b, []string{"a.md", "b.md"}[i%2]); err != nil {
					t.Error(err)
				}
			})
		}
		readers.Wait()
		if calls.Load() != 2 {
			t.Errorf("%d pages were rendered, want 2", calls.Load())
		}
	})
}

// A panic of the renderer ends neither the process nor the pages after it.
func TestPanicOfAPage(t *testing.T) {
	p := newPageRenderer("", "")
	p.convert = func([]byte) []byte { panic("a bug") }
	for range 2 {
		_, err := p.page(t.Context(), &book{}, "a.md")
		if err == nil || !strings.Contains(err.Error(), "a.md: panic: a bug") {
			t.Errorf("page() = %v", err)
		}
	}
}

// A reader who gets no page in time, or none at all, receives a notice.
func TestReadersWithoutAPageGetANotice(t *testing.T) {
	for text, tc := range map[string]struct {
		convert func([]byte) []byte
		status  int
		logged  string
	}{
		"takes too long": {func([]byte) []byte {
			<-time.After(2 * pageTimeout)
			return nil
		}, http.StatusServiceUnavailable, context.DeadlineExceeded.Error()},
		"cannot be shown": {func([]byte) []byte { panic("a bug") }, http.StatusInternalServerError, "a bug"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPageRenderer("", "")
			p.convert = tc.convert
			var logged strings.Builder
			s := &site{books: &bookCache{dir: newMount(t, sample()).dir}, renderer: p,
				log: slog.New(slog.NewTextHandler(&logged, nil))}
			got := request(t, s, http.MethodGet, "/one.html")
			if got.status != tc.status || !strings.Contains(got.body, text) || !strings.Contains(logged.String(), tc.logged) {
				t.Errorf("%d %s, logged %q", got.status, got.body, logged.String())
			}
			<-time.After(2 * pageTimeout) // until the page that takes too long is rendered
		})
	}
}

// The log has the reason why the folder cannot be read, which readers do not see.
func TestUnreadableFolderIsLogged(t *testing.T) {
	var logged strings.Builder
	s := &site{books: &bookCache{dir: t.TempDir()}, renderer: newPageRenderer("", ""),
		log: slog.New(slog.NewTextHandler(&logged, nil))}
	got := request(t, s, http.MethodGet, "/")
	if got.status != http.StatusServiceUnavailable || !strings.Contains(logged.String(), "reading SUMMARY.md") {
		t.Errorf("%d %s, logged %q", got.status, got.body, logged.String())
	}
}

// The direction is that of the script in which a language is usually written, or that the tag names.
func TestDirection(t *testing.T) {
	for tag, want := range map[string]string{
		"": "ltr", "en": "ltr", "de-AT": "ltr", "ja": "ltr", "xx": "ltr", "\"><b>": "ltr",
		"fa": "rtl", "ar-EG": "rtl", "fa_IR": "rtl", "he": "rtl", "iw": "rtl", "ur": "rtl", "dv": "rtl", "yi": "rtl",
		"ckb": "rtl", "az-Arab": "rtl", "az": "ltr", "pa-PK": "rtl", "pa": "ltr", "uz-Latn-AF": "ltr",
		"ff-Adlm": "rtl", "nqo": "rtl", "syr": "rtl",
	} {
		if got := direction(tag); got != want {
			t.Errorf("%q is written %s, want %s", tag, got, want)
		}
	}
}

// The name of a file that browsers keep for a year changes with its contents.
func TestFilesAreNamedByTheirContents(t *testing.T) {
	for name, content := range map[string][]byte{styleName: styleSource, iconName: iconSource} {
		if !strings.Contains(name, digest(content)[:12]) {
			t.Errorf("the name %s does not depend on the contents", name)
		}
	}
}

// The style sheet names no side, so it serves both directions. Only what is drawn may.
func TestStyleHasNoSides(t *testing.T) {
	for number, line := range strings.Split(string(styleSource), "\n") {
		if side.MatchString(line) {
			t.Errorf("line %d of style.css: %s", number+1, line)
		}
	}
}

// side matches a property or a value that names a side of the page.
var side = regexp.MustCompile(`(?:^|[\s;{-])(?:left|right)\b|text-align: (?:left|right)|` +
	`(?:margin|padding): [^;\s]+ [^;\s]+ [^;\s]+ [^;\s]+;`)
