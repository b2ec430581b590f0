package main

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

func TestNavigation(t *testing.T) {
	site := newHandler(t, newMount(t, sample()).dir)
	type seen struct {
		Title, Language string
		Items           []string
		Turns           []string
	}
	items := []string{"[One](one.html)", "[Two](two.html)", "Later", "Gone", "", "More", "[Three](three.html)",
		"[One again](one.html)"}
	current := func(i int) []string {
		marked := slices.Clone(items)
		marked[i] += " current"
		return marked
	}
	for target, want := range map[string]seen{
		"/":           {"One · The book", "en", current(0), []string{"next two.html"}},
		"/one.html":   {"One · The book", "en", current(0), []string{"next two.html"}},
		"/two.html":   {"Two · The book", "en", current(1), []string{"prev one.html", "next three.html"}},
		"/three.html": {"Three · The book", "en", current(6), []string{"prev two.html"}},
		"/extra.html": {"extra · The book", "en", items, nil},
		"/no.html":    {"Page not found · The book", "en", nil, nil},
	} {
		document, err := html.Parse(strings.NewReader(request(t, site, http.MethodGet, target).body))
		must(t, err)
		var got seen
		for n := range document.Descendants() {
			a := attributesOf(n)
			switch {
			case n.Type != html.ElementNode:
			case n.Data == "html":
				got.Language = a["lang"]
			case n.Data == "title":
				got.Title = n.FirstChild.Data
			case n.Data == "li" && within(n, "side"):
				got.Items = append(got.Items, describe(n))
			case n.Data == "a" && within(n, "turn"):
				got.Turns = append(got.Turns, a["rel"]+" "+a["href"])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
	}
}

func attributesOf(n *html.Node) map[string]string {
	return maps.Collect(func(yield func(string, string) bool) {
		for _, a := range n.Attr {
			if !yield(a.Key, a.Val) {
				return
			}
		}
	})
}

func within(n *html.Node, class string) bool {
	for p := range n.Ancestors() {
		if attributesOf(p)["class"] == class {
			return true
		}
	}
	return false
}

// describe returns a line of the navigation as Markdown.
func describe(line *html.Node) string {
	var text, href, current string
	for n := range line.Descendants() {
		if n.Type == html.TextNode {
			text += n.Data
		}
		a := attributesOf(n)
		if n.Data == "a" && a["href"] != "" {
			href = a["href"]
		}
		if a["aria-current"] == "page" {
			current = " current"
		}
	}
	if href == "" {
		return text + current
	}
	return "[" + text + "](" + href + ")" + current
}

// HTML in titles is escaped.
func TestTitlesAreEscaped(t *testing.T) {
	const attack = `&lt;script&gt;alert(1)&lt;/script&gt;" onclick="x`
	site := newHandler(t, newMount(t, map[string]string{
		"SUMMARY.md": "# " + attack + "\n- [" + attack + "](a.md)\n- [<script>](b.md)\n# " + attack + "\n",
		"a.md":       "a", "b.md": "b",
	}).dir)
	for _, target := range []string{"/", "/b.html", "/no"} {
		document, err := html.Parse(strings.NewReader(request(t, site, http.MethodGet, target).body))
		must(t, err)
		for n := range document.Descendants() {
			if n.Data == "script" && n.Type == html.ElementNode || attributesOf(n)["onclick"] != "" {
				t.Errorf("%s has %s %v", target, n.Data, n.Attr)
			}
		}
	}
}

// The title of a page contains the book's title, from the heading of SUMMARY.md.
func TestPageTitleHasBookTitle(t *testing.T) {
	site := newHandler(t,
		newMount(t, map[string]string{"SUMMARY.md": "# The handbook\n- [Welcome](a.md)\n", "a.md": "a"}).dir)
	if body := request(t, site, http.MethodGet, "/a.html").body; !strings.Contains(body, "The handbook</title>") {
		t.Errorf("no book title in %s", body)
	}
}
