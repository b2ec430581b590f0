// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRequests(t *testing.T) {
	m := newMount(t, sample())
	// A file that a folder may have, but never a ConfigMap.
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret.md"), []byte("secret"), 0o644))
	must(t, os.Symlink(filepath.Join(outside, "secret.md"), filepath.Join(m.dir, "link.md")))
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
		"/a%2Fb":              {404, `class="book" href="./"`, ""},
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
		"/data.html":          {404, "", ""},
		"/one.html%00":        {404, "", ""},
		"/<script>x</script>": {404, "", ""},
	} {
		t.Run(target, func(t *testing.T) {
			r := request(t, site, http.MethodGet, target)
			if r.status != want.status || r.header.Get("Location") != want.to {
				t.Errorf("status %d to %q, want %d to %q", r.status, r.header.Get("Location"), want.status, want.to)
			}
			if !strings.Contains(r.body, want.text) {
				t.Errorf("no %q in\n%s", want.text, r.body)
			}
			if strings.Contains(r.body, "secret") || strings.Contains(r.body, "<script") {
				t.Errorf("it shows a file outside the folder:\n%s", r.body)
			}
		})
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
	for given, want := range map[string]int{one: http.StatusNotModified, two: http.StatusOK} {
		if r := request(t, site, http.MethodGet, "/one.html", "If-None-Match", given); r.status != want {
			t.Errorf("If-None-Match %s: status %d, want %d", given, r.status, want)
		}
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

// Each answer, also a refusal, has the headers that keep scripts, frames and other sites away.
func TestEachAnswerIsHardened(t *testing.T) {
	site := newHandler(t, newMount(t, sample()).dir)
	for target, method := range map[string]string{"/": http.MethodGet, "/" + styleName: http.MethodGet,
		"/healthz": http.MethodGet, "/gone.html": http.MethodHead, "/one.html": http.MethodPost, "/one": http.MethodGet} {
		header := request(t, site, method, target).header
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; " +
				"form-action 'none'; frame-ancestors 'none'",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
			"Referrer-Policy":              "no-referrer",
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q, want %q", method, target, name, got, want)
			}
		}
	}
}
