// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// rendered returns the page of a text.
func rendered(source string) string { return string(HTML([]byte(source))) }

const pixel = "data:image/gif;base64,R0lGODlhAQABAAAAACw="

func TestHTML(t *testing.T) {
	for reason, tc := range map[string]struct{ source, want string }{
		"headings can be linked to": {"# Über *uns*!", `<h1 id="über-uns">Über <em>uns</em>!</h1>`},
		"ids are unique": {"# A\n# A\n# A 1\n# ?",
			`<h1 id="a">A</h1><h1 id="a-1">A</h1><h1 id="a-1-1">A 1</h1><h1 id="heading">?</h1>`},
		"underlined headings too": {"A\n===", `<h1 id="a">A</h1>`},
		"tables scroll by themselves": {"a|b\n-|-:\n1|2",
			`<div class="scroll" tabindex="0"><table><thead><tr><th>a</th><th align="right">b</th></tr></thead>` +
				`<tbody><tr><td>1</td><td align="right">2</td></tr></tbody></table></div>`},
		"no task":       {"- [x](a.md)", `<ul><li><a href="a.html">x</a></li></ul>`},
		"task lists":    {"- [x] a", `<ul><li><input checked="" disabled="" type="checkbox"/> a</li></ul>`},
		"strikethrough": {"~~a~~", `<p><del>a</del></p>`},
		"code keeps its language and is not read": {"```go\n<b>*a*\n```",
			`<pre tabindex="0"><code class="language-go">&lt;b&gt;*a*</code></pre>`},
		"quotes": {"> a", `<blockquote><p>a</p></blockquote>`},
		"bare links": {"see https://example.com.",
			`<p>see <a href="https://example.com">https://example.com</a>.</p>`},
		"mail addresses": {"<a@example.com>",
			`<p><a href="mailto:a@example.com">a@example.com</a></p>`},
		"telephone numbers": {"[a](tel:+49-30-1234)",
			`<p><a href="tel:+49-30-1234">a</a></p>`},
		"an address that leads nowhere is text": {"<javascript:a>", `<p>javascript:a</p>`},
		"a link to a file is one to its page":   {"[a](page1.md#x-y)", `<p><a href="page1.html#x-y">a</a></p>`},
		"however it is written":                 {"[a](./page1.md?x)", `<p><a href="page1.html">a</a></p>`},
		"references too": {"[a][p]\n\n[p]: page1.md 'T&amp;\"'",
			`<p><a href="page1.html" title="T&amp;&#34;">a</a></p>`},
		"what cannot be a page stays as it is": {"[a](sub/page1.md)", `<p><a href="sub/page1.md">a</a></p>`},
		"links within the page":                {"[a](#b)", `<p><a href="#b">a</a></p>`},
		"links within the page, in any case": {"# A b\n[c](#A-B)",
			`<h1 id="a-b">A b</h1><p><a href="#a-b">c</a></p>`},
		"a .md of another site stays": {"[a](https://example.com/a.md?b=c&d=e)",
			`<p><a href="https://example.com/a.md?b=c&amp;d=e">a</a></p>`},
		"an image elsewhere is a link, so that nothing is loaded": {"![a *b*](https://example.com/a.png)",
			`<p><a href="https://example.com/a.png">a b</a></p>`},
		"a link needs a text": {"![](https://example.com/a.png)",
			`<p><a href="https://example.com/a.png">https://example.com/a.png</a></p>`},
		"no link in a link": {"[![a](https://example.com/a.png)](page1.md)", `<p><a href="page1.html">a</a></p>`},
		"images of each other type": {
			"![](data:image/png;base64,AA==)![](data:image/jpeg;base64,AA==)![](data:image/webp;base64,AA==)",
			`<p><img src="data:image/png;base64,AA==" alt=""/><img src="data:image/jpeg;base64,AA==" alt=""/>` +
				`<img src="data:image/webp;base64,AA==" alt=""/></p>`},
		"an image in the page is shown": {"![a\"b](" + pixel + ")",
			`<p><img src="` + pixel + `" alt="a&#34;b"/></p>`},
	} {
		t.Run(reason, func(t *testing.T) {
			if diff := cmp.Diff(parsed(t, tc.want), parsed(t, rendered(tc.source))); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}

// hrefsOf returns the addresses of the links of a page.
func hrefsOf(t *testing.T, source string) []string {
	t.Helper()
	all := []string{}
	for _, root := range parse(t, "<div>"+rendered(source)+"</div>") {
		for n := range root.Descendants() {
			for _, a := range n.Attr {
				if a.Key == "href" {
					all = append(all, a.Val)
				}
			}
		}
	}
	return all
}

// Bare links are those of GFM, and web addresses of hosts without a dot.
func TestBareLinks(t *testing.T) {
	for source, want := range map[string]string{
		"http://localhost:8080/metrics":            "http://localhost:8080/metrics",
		"- http://10.1.2.3:9090/targets":           "http://10.1.2.3:9090/targets",
		"(http://prometheus:9090/graph)":           "http://prometheus:9090/graph",
		"see https://grafana.":                     "https://grafana",
		"http://[::1]:8080/a":                      "http://[::1]:8080/a",
		"http://prometheus":                        "http://prometheus",
		"https://a-b_c.example.com:8443":           "https://a-b_c.example.com:8443",
		"https://bücher.example/straße":            "https://b%C3%BCcher.example/stra%C3%9Fe",
		"http://a/b_(c)":                           "http://a/b_(c)",
		"(http://a/b)":                             "http://a/b",
		"http://a/b?c=d&e=f#g":                     "http://a/b?c=d&e=f#g",
		"http://a/b&amp;":                          "http://a/b",
		"http://a/b, then":                         "http://a/b",
		"**http://a/b**":                           "http://a/b",
		"http://a/100%":                            "http://a/100%25",
		"http://a<b":                               "http://a",
		"http://host/path#/deep/!x":                "http://host/path#/deep/!x",
		"http://commonmark.org/he<lp":              "http://commonmark.org/he",
		"www.commonmark.org/help.":                 "http://www.commonmark.org/help",
		"foo@bar.example.com":                      "mailto:foo@bar.example.com",
		"| a |\n|---|\n| http://prometheus:9090 |": "http://prometheus:9090",
		"http://":                                  "",
		"http:///a":                                "",
		"xhttp://a":                                "",
		"`http://a`":                               "",
		"ftp://a/b":                                "",
		"http://-a":                                "",
		"a:b@c":                                    "",
	} {
		if got := strings.Join(hrefsOf(t, source), " "); got != want {
			t.Errorf("%q leads to %q, want %q", source, got, want)
		}
	}
}

// Front matter is not shown. Anything else between lines is.
func TestFrontMatter(t *testing.T) {
	for source, want := range map[string]string{
		"---\ntitle: A\n---\nText":                          "<p>Text</p>\n",
		"\uFEFF---\r\ntitle: A\r\n---\r\nText":              "<p>Text</p>\n",
		"---\n# a comment\ntags:\n- a\n  b: c\n\n---\nText": "<p>Text</p>\n",
		"---\nlayout: post\n---":                            "",
		"---\nA text.\n---\nText":                           "<hr>\n<h2 id=\"a-text\">A text.</h2>\n<p>Text</p>\n",
		"---\ntitle: A\n\nText":                             "<hr>\n<p>title: A</p>\n<p>Text</p>\n",
		"Text\n\n---\ntitle: A\n---\n":                      "<p>Text</p>\n<hr>\n<h2 id=\"title-a\">title: A</h2>\n",
		"---\n" + strings.Repeat("a:\n", 999) + "---\nText": "<p>Text</p>\n",
		"---\n---\nText":                                    "<hr>\n<hr>\n<p>Text</p>\n",
	} {
		if got := HTML([]byte(source)); string(got) != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

// A '%' that begins no escape is one, as in browsers.
func TestBarePercent(t *testing.T) {
	for source, want := range map[string]string{
		"[a](https://www.example.org/css-unit-%/)":     "https://www.example.org/css-unit-%25/",
		"<https://www.example.org/css-unit-%/>":        "https://www.example.org/css-unit-%25/",
		"[a](https://en.example.org/wiki/100_%_human)": "https://en.example.org/wiki/100_%25_human",
		"[a](https://example.org/%41%zz%%20%2)":        "https://example.org/%41%25zz%25%20%252",
		"[a](https://example.org/?q=100%#50%)":         "https://example.org/?q=100%25#50%25",
		"[a](page1.md#100%)":                           "page1.html#100%25",
		"[a](#50%-off)":                                "#50%25-off",
		"![a](https://example.org/%.png)":              "https://example.org/%25.png",
		"[a][r]\n\n[r]: https://example.org/%":         "https://example.org/%25",
		"[a](mailto:a@example.org?subject=100%)":       "mailto:a@example.org?subject=100%25",
	} {
		if got := strings.Join(hrefsOf(t, source), " "); got != want {
			t.Errorf("%q leads to %q, want %q", source, got, want)
		}
	}
}

// parsed returns the HTML as a browser parses it, without white space between tags.
func parsed(t *testing.T, source string) string {
	t.Helper()
	var b strings.Builder
	for _, n := range parse(t, source) {
		if n.Type == html.TextNode {
			n.Data = strings.Trim(n.Data, "\n")
		}
		for c := range n.Descendants() {
			if c.Type == html.TextNode {
				c.Data = strings.Trim(c.Data, "\n")
			}
		}
		if err := html.Render(&b, n); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func parse(t testing.TB, source string) []*html.Node {
	t.Helper()
	body := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
	nodes, err := html.ParseFragment(strings.NewReader(source), body)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}
