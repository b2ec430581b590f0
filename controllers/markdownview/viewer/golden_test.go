package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
)

// TestResponsesGolden compares whole responses with a golden file: pages, notices and redirects. It
// omits the names of the style sheet and the icon, which contain hashes.
func TestResponsesGolden(t *testing.T) {
	nested := newMount(t, map[string]string{
		"SUMMARY.md": "# Deep\n- [0](0.md)\n  - [1](1.md)\n    - [2](2.md)\n      - [3](3.md)\n        - [4](4.md)\n      " +
			"    - [5](5.md)\n",
		"0.md": "0", "1.md": "1", "2.md": "2", "3.md": "3", "4.md": "4", "5.md": "5",
	})
	book, empty := newHandler(t, newMount(t, sample()).dir), newHandler(t, t.TempDir())
	titled := (&site{books: &bookCache{dir: nested.dir},
		renderer: &pageRenderer{title: "By the flag", language: "de"}}).handler()
	var got strings.Builder
	record := func(name string, site http.Handler, method, target string) {
		a := request(t, site, method, target)
		fmt.Fprintf(&got, "== %s: %s %s\n%d\n", name, method, target, a.status)
		for _, key := range slices.Sorted(maps.Keys(a.header)) {
			fmt.Fprintf(&got, "%s: %s\n", key, strings.Join(a.header[key], " | "))
		}
		fmt.Fprintf(&got, "\n%s\n", a.body)
	}
	for _, target := range []string{"/", "/two.html", "/one", "/a/b/none", "/a%2Fb", "/healthz"} {
		record("a book", book, http.MethodGet, target)
	}
	record("a book", book, http.MethodPost, "/")
	record("a title and a language by flags", titled, http.MethodGet, "/5.html")
	record("a folder without a book", empty, http.MethodGet, "/x/y")
	record("a folder without a book", empty, http.MethodGet, "/healthz")
	text := strings.NewReplacer(styleName, "STYLE", iconName, "ICON").Replace(got.String())
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Etag: ") || strings.HasPrefix(line, "Content-Length: ") {
			text = strings.Replace(text, line, "", 1) // they depend on the hashes in the body
		}
	}
	golden.Assert(t, text, "answers.txt")
}
