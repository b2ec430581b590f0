// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
)

// TestResponsesGolden compares whole responses with a golden file: pages, notices, redirects and
// files. It omits the contents of the style sheet and the icon, and their hashes.
func TestResponsesGolden(t *testing.T) {
	const attack = `&lt;script&gt;alert(1)&lt;/script&gt;" onclick="x`
	shown := func(files map[string]string) http.Handler { return newHandler(t, newMount(t, files).dir) }
	nested := newMount(t, map[string]string{
		"SUMMARY.md": "# Deep\n- [0](0.md)\n  - [1](1.md)\n    - [2](2.md)\n      - [3](3.md)\n        - [4](4.md)\n      " +
			"    - [5](5.md)\n- [Elsewhere](https://example.com/)\n",
		"0.md": "0", "1.md": "1", "2.md": "2", "3.md": "3", "4.md": "4", "5.md": "5",
	})
	titled := &site{books: &bookCache{dir: nested.dir}, renderer: newPageRenderer("By the flag", "de"),
		log: slog.New(slog.DiscardHandler)}
	var got strings.Builder
	for _, of := range []struct {
		name    string
		site    http.Handler
		targets []string
	}{
		{"a book", shown(sample()), []string{"GET /", "GET /two.html", "GET /three.html", "GET /extra.html", "GET /one",
			"GET /a/b/none", "GET /a%2Fb", "GET /healthz", "GET /" + styleName, "GET /" + iconName, "POST /", "PUT /healthz"}},
		{"a title and a language by flags", titled, []string{"GET /5.html"}},
		{"titles that attack", shown(map[string]string{
			"SUMMARY.md": "# " + attack + "\n- [" + attack + "](a.md)\n- [<script>](b.md)\n# " + attack + "\n",
			"a.md":       "a", "b.md": "b",
		}), []string{"GET /b.html", "GET /no"}},
		{"a book without chapters", shown(map[string]string{"SUMMARY.md": "# Soon\n\nNothing yet.\n"}), []string{"GET /"}},
		{"a folder without a book", newHandler(t, t.TempDir()), []string{"GET /x/y", "GET /healthz"}},
		{"no folder", newHandler(t, "testdata/none"), []string{"GET /", "GET /healthz"}},
	} {
		for _, line := range of.targets {
			method, target, _ := strings.Cut(line, " ")
			a := request(t, of.site, method, target)
			fmt.Fprintf(&got, "== %s: %s\n%d\n", of.name, line, a.status)
			for _, key := range slices.Sorted(maps.Keys(a.header)) {
				if key != "Etag" && key != "Content-Length" { // they depend on the hashes in the body
					fmt.Fprintf(&got, "%s: %s\n", key, strings.Join(a.header[key], " | "))
				}
			}
			fmt.Fprintf(&got, "\n%s\n", a.body)
		}
	}
	omit := strings.NewReplacer(styleName, "STYLE", iconName, "ICON", string(styleSource), "(the style sheet)",
		string(iconSource), "(the icon)")
	golden.Assert(t, omit.Replace(got.String()), "answers.txt")
}
