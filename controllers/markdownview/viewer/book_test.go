// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold.dev/controllers/markdownview/viewer/render"
)

// A mounted ConfigMap changes by a rename of ..data; a plain folder changes file by file.
func TestChangedFilesAreServed(t *testing.T) {
	m := newMount(t, sample())
	site := newHandler(t, m.dir)
	shows := func(target string, status int, text string) {
		t.Helper()
		r := request(t, site, http.MethodGet, target)
		if r.status != status || !strings.Contains(r.body, text) {
			t.Errorf("%s: status %d, want %d with %q in\n%s", target, r.status, status, text, r.body)
		}
	}
	shows("/one.html", 200, "First page")

	files := sample()
	files["one.md"] = "# Fresh page\n" // of the same length
	files["new.md"] = "# New page\n"
	delete(files, "two.md")
	m.update(t, files)
	shows("/one.html", 200, "Fresh page")
	shows("/new.html", 200, "New page")
	shows("/two.html", 404, "not found")

	delete(files, "SUMMARY.md")
	m.update(t, files)
	shows("/one.html", 503, "Not available")
	shows("/healthz", 503, "reading SUMMARY.md: file does not exist")
	m.update(t, sample())
	shows("/healthz", 200, "ok")
	shows("/one.html", 200, "First page")
}

// In a plain folder, an edit without a change of the size is detected by the file's time.
func TestEditOfSameLengthIsServed(t *testing.T) {
	dir := t.TempDir()
	site := newHandler(t, dir)
	write := func(text string, at time.Time) {
		t.Helper()
		name := filepath.Join(dir, "SUMMARY.md")
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range []string{"# First\n", "# Fresh\n"} {
		write(text, time.Unix(0, int64(i)*int64(time.Millisecond)))
		if r := request(t, site, http.MethodGet, "/"); !strings.Contains(r.body, strings.TrimSpace(text[2:])) {
			t.Errorf("the folder has %q, and the page is\n%s", text, r.body)
		}
	}
}

// While the contents change, each response is of one version: the page agrees with its navigation.
func TestResponsesAreOfOneVersion(t *testing.T) {
	version := func(n int) map[string]string {
		text := strings.Repeat(strconv.Itoa(n), 3)
		return map[string]string{"SUMMARY.md": "- [nav" + text + "](a.md)\n", "a.md": "page" + text}
	}
	m := newMount(t, version(0))
	site := newHandler(t, m.dir)
	pair := regexp.MustCompile(`(?s)nav(\d\d\d).*page(\d\d\d)`)
	changed, answered := make(chan struct{}), make(chan struct{})
	var readers sync.WaitGroup
	seen := make([]map[string]bool, 4)
	for i := range seen {
		seen[i] = map[string]bool{}
		readers.Go(func() {
			for ended := false; !ended; {
				select {
				case <-changed:
					ended = true // one more request, for the last version
				default:
				}
				r := request(t, site, http.MethodGet, "/")
				found := pair.FindStringSubmatch(r.body)
				if r.status != http.StatusOK || found == nil || found[1] != found[2] {
					t.Errorf("status %d, versions %q", r.status, found)
				} else {
					seen[i][found[1]] = true
				}
				select {
				case answered <- struct{}{}:
				default:
				}
			}
		})
	}
	for n := range 50 {
		m.update(t, version(n%9+1))
		<-answered // else slow readers, which have maxAttempts, might never meet a folder at rest
	}
	close(changed)
	readers.Wait()
	for i := range seen {
		if !seen[i]["555"] { // the last one: 49 % 9 + 1
			t.Errorf("reader %d has read %v, not the last version", i, slices.Collect(maps.Keys(seen[i])))
		}
	}
}

// A book is read once, and again after a change, which may be between the listing of the folder and the read.
func TestBooksAreReadAfterAChange(t *testing.T) {
	m := newMount(t, sample())
	cache := &bookCache{dir: m.dir}
	first, err := cache.current()
	must(t, err)
	if again, err := cache.current(); again != first {
		t.Errorf("a book without a change is read again (%v)", err)
	}
	m.update(t, sample())
	if again, err := cache.current(); again == first || err != nil {
		t.Errorf("a book is not read again after a change (%v)", err)
	}
	m.update(t, sample())
	root, err := os.OpenRoot(m.dir)
	must(t, err)
	t.Cleanup(func() { must(t, root.Close()) })
	changed, err := cache.readUntilStable(root, func(root *os.Root) ([]string, string, error) {
		names, version, err := scan(root)
		if slices.Contains(names, "one.md") {
			m.update(t, map[string]string{"SUMMARY.md": "[New](new.md)", "new.md": "# New page\n"})
		}
		return names, version, err
	})
	must(t, err)
	if len(changed.chapters) != 1 || changed.chapters[0].File != "new.md" {
		t.Errorf("the chapters are %+v, want new.md", changed.chapters)
	}
}

// A chapter that SUMMARY.md lists twice is read once, so "next" ends.
func TestChaptersAreReadOnce(t *testing.T) {
	b, err := (&bookCache{dir: newMount(t, sample()).dir}).current()
	must(t, err)
	want := []render.Entry{{Title: "One", File: "one.md", Href: "one.html"},
		{Title: "Two", File: "two.md", Href: "two.html", Depth: 1}, {Title: "Three", File: "three.md", Href: "three.html"}}
	if !slices.Equal(b.chapters, want) {
		t.Errorf("the chapters are %+v, want %+v", b.chapters, want)
	}
}
