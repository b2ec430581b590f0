// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"leasehold.dev/controllers/markdownview/viewer/render"
)

// site serves the pages of a book.
//
// Pages have no script, not even one that reloads them: the browser enforces "no script at all",
// and a page that changes while it is read would lose the reader's position. A reload of an
// unchanged page costs one response without a body.
//
// All links are relative, so the pages work below any path of a proxy.
type site struct {
	books    *bookCache
	renderer *pageRenderer
	log      *slog.Logger
}

// policy allows the viewer's own style sheet and icon, and images inside the page.
const policy = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler for all paths.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
		return
	}
	// http.ServeMux is not used: it redirects unclean paths, and below the path of a proxy the
	// target would be wrong.
	switch r.URL.Path {
	case "/healthz":
		s.health(w)
	case "/" + styleName:
		asset(w, r, styleSource, "text/css; charset=utf-8")
	case "/" + iconName:
		asset(w, r, iconSource, "image/svg+xml")
	default:
		s.serve(w, r)
	}
}

// asset serves a file that never changes under its name.
func asset(w http.ResponseWriter, r *http.Request, content []byte, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// health responds with 200 if the book can be read, and otherwise with 503 and the reason.
func (s *site) health(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if _, err := s.books.current(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// An error means that the client has closed the connection.
	_, _ = w.Write([]byte("ok\n"))
}

// serve responds with the page of a file: the path / is the first chapter, /page1.html is page1.md.
// The paths /page1 and /page1.md redirect to it.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	b, err := s.books.current()
	if err != nil {
		// /healthz and the log have the reason, which the reader cannot resolve.
		s.log.Error("Cannot read the directory", "folder", s.books.dir, "error", err)
		s.notice(w, r, &book{}, http.StatusServiceUnavailable, "Not available",
			"The pages cannot be read at the moment. Try again in a minute.")
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	base, isPage := strings.CutSuffix(name, ".html")
	shown := base + ".md"
	if name == "" {
		shown, isPage = b.chapters[0].File, true
	}
	if _, ok := b.files[shown]; ok && isPage {
		s.show(w, r, b, shown)
		return
	}
	for _, file := range []string{name, name + ".md"} {
		if _, ok := b.files[file]; ok {
			w.Header().Set("Cache-Control", "no-cache")
			// The location is relative; http.Redirect would write an absolute path. A file's name
			// needs no escapes.
			w.Header().Set("Location", render.PageName(file))
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
	}
	s.notice(w, r, b, http.StatusNotFound, "Page not found",
		"There is no page at this address. It may have been renamed or removed.")
}

// show responds with the page of a file, or with 304 if the client has it.
func (s *site) show(w http.ResponseWriter, r *http.Request, b *book, file string) {
	made, err := s.renderer.page(r.Context(), b, file)
	if err != nil {
		s.log.Error("Cannot show the page", "file", file, "error", err)
		status, text := http.StatusInternalServerError, "This page cannot be shown."
		if errors.Is(err, context.DeadlineExceeded) {
			status, text = http.StatusServiceUnavailable, "This page takes too long to render. Try again in a minute."
		}
		s.notice(w, r, b, status, "Not available", text)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", made.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(made.html))
}

// notice responds with a page that is not in the book.
func (s *site) notice(w http.ResponseWriter, r *http.Request, b *book, status int, title, text string) {
	w.Header().Set("Cache-Control", "no-store")
	// The path may have any depth: /a/b/c.
	root := strings.Repeat("../", max(strings.Count(r.URL.EscapedPath(), "/")-1, 0))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// An error means that the client has closed the connection. net/http sends no body for HEAD.
	_, _ = w.Write(s.renderer.notice(b, root, title, text).html)
}

// maxConnections bounds the connections of a viewer; further ones wait.
const maxConnections = 128

// newServer returns a server for the site with timeouts for slow clients and a header limit.
func newServer(s *site) *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       10 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}
