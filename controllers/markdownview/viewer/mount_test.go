// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// mount is a folder with the layout that the kubelet creates for a mounted ConfigMap: each file is
// a link through ..data, which is a link to a folder named by a time. An update is one rename of
// ..data.
type mount struct {
	dir  string
	turn int
}

func newMount(t *testing.T, files map[string]string) *mount {
	t.Helper()
	m := &mount{dir: t.TempDir()}
	m.update(t, files)
	return m
}

func (m *mount) update(t *testing.T, files map[string]string) {
	t.Helper()
	m.turn++
	data := fmt.Sprintf("..2026_11_21_00_00_%02d.1", m.turn)
	must(t, os.Mkdir(filepath.Join(m.dir, data), 0o755))
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(m.dir, data, name), []byte(content), 0o644))
	}
	old, _ := os.Readlink(filepath.Join(m.dir, "..data")) // an error the first time
	must(t, os.Symlink(data, filepath.Join(m.dir, "..data_tmp")))
	must(t, os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if old == "" {
		return
	}
	gone, err := os.ReadDir(filepath.Join(m.dir, old))
	must(t, err)
	for _, entry := range gone {
		if _, stays := files[entry.Name()]; !stays {
			must(t, os.Remove(filepath.Join(m.dir, entry.Name())))
		}
	}
	must(t, os.RemoveAll(filepath.Join(m.dir, old)))
}

// newHandler returns the handler for a folder. Its log goes to the test.
func newHandler(t *testing.T, dir string) http.Handler {
	t.Helper()
	return &site{
		books:    &bookCache{dir: dir},
		renderer: newPageRenderer("", "en"),
		log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sample returns the files of a small book.
func sample() map[string]string {
	return map[string]string{
		"SUMMARY.md": "# The book\n\n- [One](one.md)\n  - [Two](two.md#part)\n- [Later]()\n- [Gone](gone.md)\n\n---\n\n# " +
			"More\n\n- [Three](three.md)\n- [One again](one.md)\n",
		"one.md":   "# First page\n\n[two](two.md)\n",
		"two.md":   "# Second page\n",
		"three.md": "# Third page\n",
		"extra.md": "# Not listed\n",
	}
}

// response is the response of a handler.
type response struct {
	status int
	header http.Header
	body   string
}

// request sends a request to a handler. It does not clean the target.
func request(t *testing.T, site http.Handler, method, target string, header ...string) response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
	address, err := url.ParseRequestURI(target)
	must(t, err)
	r.URL, r.RequestURI = address, target
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	return response{w.Code, w.Header(), w.Body.String()}
}
