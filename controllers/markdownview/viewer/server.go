package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"leasehold.dev/controllers/markdownview/viewer/render"
)

// site answers requests with the pages of a shelf's book.
//
// Pages have no script, not even one that reloads them: "no script at all" is a
// rule that a browser can hold, and a page that changes under its reader
// loses their place. A reload asks, and costs one answer without a body when
// nothing has changed.
//
// All links are relative, so the pages work below any path of a proxy.
type site struct {
	shelf   *shelf
	printer *printer
	log     *slog.Logger

	// trouble is what was last logged about the folder, so that each trouble is
	// logged once and not by each probe.
	mu      sync.Mutex
	trouble string
}

// policy allows our own style sheet and icon, and images within the page.
const policy = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handler returns the whole site.
func (s *site) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		// No ServeMux: it redirects what it takes for untidy, and below a proxy's path
		// it would redirect to the wrong place.
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
	})
}

// asset serves what never changes under its name.
func asset(w http.ResponseWriter, r *http.Request, content []byte, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// health answers 200 while there is a book to show, else 503 with the reason.
func (s *site) health(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if _, err := s.book(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// The client is gone when this fails, and nobody is left to tell.
	_, _ = w.Write([]byte("ok\n"))
}

// book returns the book as it is now, and logs when that begins or ceases to fail.
func (s *site) book() (*book, error) {
	b, err := s.shelf.current()
	trouble := ""
	if err != nil {
		trouble = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case trouble == s.trouble:
	case err != nil:
		s.log.Error("The folder cannot be shown", "folder", s.shelf.dir, "error", err)
	default:
		s.log.Info("The folder can be shown again", "folder", s.shelf.dir)
	}
	s.trouble = trouble
	return b, err
}

// serve answers with the page of a file: / is the first chapter, /page1.html the
// page of page1.md. /page1 and /page1.md lead there.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	b, err := s.book()
	if err != nil {
		// Why is for the log and for the probe; the reader cannot do anything about it.
		s.notice(w, r, nil, http.StatusServiceUnavailable, "Not available", "The pages cannot be read at the moment. Try again in a minute.")
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		s.show(w, r, b, b.first())
		return
	}
	if base, ok := strings.CutSuffix(name, ".html"); ok {
		if _, ok := b.files[base+".md"]; ok {
			s.show(w, r, b, base+".md")
			return
		}
	}
	for _, file := range []string{name, name + ".md"} {
		if _, ok := b.files[file]; ok {
			w.Header().Set("Cache-Control", "no-cache")
			// Relative, unlike what http.Redirect makes of it. A file's name needs no escapes.
			w.Header().Set("Location", render.PageName(file))
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
	}
	s.notice(w, r, b, http.StatusNotFound, "Page not found", "There is no page at this address. It may have been renamed or removed.")
}

// show answers with the page of a file, or without a body when the client has it.
func (s *site) show(w http.ResponseWriter, r *http.Request, b *book, file string) {
	made, err := s.printer.page(b, file)
	if err != nil {
		s.log.Error("The page cannot be made", "file", file, "error", err)
		s.notice(w, r, b, http.StatusInternalServerError, "Not available", "This page cannot be shown.")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", made.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(made.html))
}

// notice answers with a page that is not of the book.
func (s *site) notice(w http.ResponseWriter, r *http.Request, b *book, status int, title, text string) {
	w.Header().Set("Cache-Control", "no-store")
	// The notice may stand at any depth: /a/b/c.
	root := strings.Repeat("../", max(strings.Count(r.URL.EscapedPath(), "/")-1, 0))
	made, err := s.printer.notice(b, root, title, text)
	if err != nil {
		s.log.Error("The notice cannot be made", "error", err)
		http.Error(w, title, status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// As above; and net/http sends no body for HEAD.
	_, _ = w.Write(made.html)
}

// newServer returns a server for the site that gives up on slow and greedy clients.
func newServer(s *site) *http.Server {
	return &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}
