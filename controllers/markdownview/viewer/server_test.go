package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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

func TestRequests(t *testing.T) {
	m := newMount(t, sample())
	// A file that a folder may have, but never a ConfigMap.
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret.md"), []byte("secret"), 0o644))
	must(t, os.Symlink(filepath.Join(outside, "secret.md"), filepath.Join(m.dir, "link.md")))
	must(t, os.Symlink("one.md", filepath.Join(m.dir, "inner.md")))
	must(t, os.Symlink("..data", filepath.Join(m.dir, "data.md")))
	must(t, os.Mkdir(filepath.Join(m.dir, "folder.md"), 0o755))
	must(t, os.Mkdir(filepath.Join(m.dir, "sub"), 0o755))
	for _, name := range []string{".hidden.md", "notes.txt", "sub/page.md", "with space.md"} {
		must(t, os.WriteFile(filepath.Join(m.dir, name), []byte("secret"), 0o644))
	}
	site := newHandler(t, m.dir)

	for target, want := range map[string]struct {
		status int
		text   string // in the body
		to     string // the Location
	}{
		"/":                   {200, "First page", ""},
		"/?x=y":               {200, "First page", ""},
		"/one.html":           {200, "First page", ""},
		"/two.html":           {200, "Second page", ""},
		"/extra.html":         {200, "Not listed", ""},
		"/SUMMARY.html":       {200, `id="the-book"`, ""},
		"/one":                {307, "", "one.html"},
		"/one.md":             {307, "", "one.html"},
		"/" + styleName:       {200, "color-scheme", ""},
		"/" + iconName:        {200, "<svg", ""},
		"/healthz":            {200, "ok\n", ""},
		"/gone.html":          {404, "Page not found", ""},
		"/gone":               {404, `class="book" href="./"`, ""},
		"/a/b.html":           {404, `href="../` + styleName, ""},
		"/a/b/c":              {404, `class="book" href="../../"`, ""},
		"/ONE.html":           {404, "", ""},
		"/one.html/":          {404, "", ""},
		"/style.css":          {404, "", ""},
		"/assets/style.css":   {404, "", ""},
		"/favicon.ico":        {404, "", ""},
		"//one.html":          {404, "", ""},
		"/./one.html":         {404, "", ""},
		"/sub/../one.html":    {404, "", ""},
		"/../one.html":        {404, "", ""},
		"/../../etc/passwd":   {404, "", ""},
		"/..%2f..%2fetc":      {404, "", ""},
		"/..\\one.html":       {404, "", ""},
		"/..data/one.md":      {404, "", ""},
		"/..data/one.html":    {404, "", ""},
		"/..data":             {404, "", ""},
		"/.hidden.html":       {404, "", ""},
		"/.hidden.md":         {404, "", ""},
		"/notes.txt":          {404, "", ""},
		"/sub/page.html":      {404, "", ""},
		"/sub":                {404, "", ""},
		"/with space.html":    {404, "", ""},
		"/folder.html":        {404, "", ""},
		"/link.html":          {404, "", ""},
		"/inner.html":         {404, "", ""},
		"/data.html":          {404, "", ""},
		"/one.html%00":        {404, "", ""},
		"/<script>x</script>": {404, "", ""},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			t.Run(method+" "+target, func(t *testing.T) {
				r := request(t, site, method, target)
				if r.status != want.status || r.header.Get("Location") != want.to {
					t.Errorf("status %d to %q, want %d to %q", r.status, r.header.Get("Location"), want.status, want.to)
				}
				// net/http omits the body for HEAD only on a connection.
				if !strings.Contains(r.body, want.text) && method == http.MethodGet {
					t.Errorf("no %q in\n%s", want.text, r.body)
				}
				if strings.Contains(r.body, "secret") || strings.Contains(r.body, "<script") {
					t.Errorf("it shows a file outside the folder:\n%s", r.body)
				}
			})
		}
	}
}

// All responses have the same security headers.
func TestHeaders(t *testing.T) {
	site := newHandler(t, newMount(t, sample()).dir)
	const page, forEver = "text/html; charset=utf-8", "public, max-age=31536000, immutable"
	for target, own := range map[string]struct{ kind, cache string }{
		"/": {page, "no-cache"}, "/two.html": {page, "no-cache"}, "/two": {"", "no-cache"}, "/no": {page, "no-store"},
		"/healthz":      {"text/plain; charset=utf-8", "no-store"},
		"/" + styleName: {"text/css; charset=utf-8", forEver}, "/" + iconName: {"image/svg+xml", forEver},
	} {
		r := request(t, site, http.MethodGet, target)
		for name, want := range map[string]string{
			"Cache-Control":                own.cache,
			"Content-Security-Policy":      policy,
			"Content-Type":                 own.kind,
			"Cross-Origin-Resource-Policy": "same-origin",
			"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
			"Referrer-Policy":              "no-referrer",
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
	}
	for _, forbidden := range []string{"script-src", "unsafe-inline", "unsafe-eval", "http:", "https:", "*"} {
		if strings.Contains(policy, forbidden) {
			t.Errorf("the policy has %s", forbidden)
		}
	}
}

func TestMethods(t *testing.T) {
	site := newHandler(t, newMount(t, sample()).dir)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"} {
		for _, target := range []string{"/", "/one.html", "/healthz", "/" + styleName, "/no"} {
			r := request(t, site, method, target)
			if r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: status %d, Allow %q", method, target, r.status, r.header.Get("Allow"))
			}
		}
	}
}

func TestETag(t *testing.T) {
	m := newMount(t, sample())
	site := newHandler(t, m.dir)
	tag := func(target string) string {
		t.Helper()
		r := request(t, site, http.MethodGet, target)
		if r.status != http.StatusOK || r.header.Get("ETag") == "" {
			t.Fatalf("%s: status %d, ETag %q", target, r.status, r.header.Get("ETag"))
		}
		return r.header.Get("ETag")
	}
	one, two := tag("/one.html"), tag("/two.html")
	for _, header := range []string{one, "W/" + one, `"x", ` + one, "*"} {
		r := request(t, site, http.MethodGet, "/one.html", "If-None-Match", header)
		if r.status != http.StatusNotModified || r.body != "" || r.header.Get("ETag") != one {
			t.Errorf("If-None-Match %s: status %d with %d bytes", header, r.status, len(r.body))
		}
	}
	if r := request(t, site, http.MethodGet, "/one.html", "If-None-Match", two); r.status != http.StatusOK {
		t.Errorf("with the ETag of another page: status %d", r.status)
	}

	files := sample()
	files["one.md"] = "# Other text\n"
	m.update(t, files)
	if tag("/one.html") == one {
		t.Error("the text changed, the ETag did not")
	}
	if tag("/two.html") != two {
		t.Error("the text of one page changed, and the ETag of another")
	}
	files["SUMMARY.md"] = strings.Replace(files["SUMMARY.md"], "[Three]", "[Drei]", 1)
	m.update(t, files)
	if tag("/two.html") == two {
		t.Error("the navigation changed, the ETag did not")
	}
	m.update(t, sample())
	if tag("/one.html") != one || tag("/two.html") != two {
		t.Error("equal contents have other ETags")
	}
}

// Without chapters the front page shows SUMMARY.md.
func TestNoChapters(t *testing.T) {
	site := newHandler(t, newMount(t, map[string]string{"SUMMARY.md": "# Soon\n\nNothing yet.\n"}).dir)
	r := request(t, site, http.MethodGet, "/")
	if r.status != http.StatusOK || !strings.Contains(r.body, "Nothing yet.") {
		t.Errorf("status %d:\n%s", r.status, r.body)
	}
}
