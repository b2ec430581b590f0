// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

// These elements and attributes are all that a page may contain.
var (
	elements = []string{
		"a", "blockquote", "br", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img", "input",
		"li", "ol", "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
	}
	attributes = []string{"align", "alt", "checked", "class", "disabled", "href", "id", "src", "start", "tabindex", "title", "type"}
)

// unsafeParts returns the parts of a page that are not allowed.
func unsafeParts(t testing.TB, page string) []string {
	t.Helper()
	var found []string
	for _, root := range parse(t, page) {
		for _, n := range append(slices.Collect(root.Descendants()), root) {
			if n.Type != html.ElementNode {
				continue
			}
			if !slices.Contains(elements, n.Data) {
				found = append(found, "element "+n.Data)
			}
			for _, a := range n.Attr {
				if !slices.Contains(attributes, a.Key) || !safeValue(n.Data, a.Key, a.Val) {
					found = append(found, "attribute "+a.Key+"="+a.Val+" of "+n.Data)
				}
			}
		}
	}
	return found
}

// safeValue checks an attribute. Like a browser, it drops white space and control characters before
// the scheme.
func safeValue(element, key, value string) bool {
	switch key {
	case "href":
		bare := strings.ToLower(strings.Map(func(r rune) rune {
			if r <= ' ' {
				return -1
			}
			return r
		}, value))
		scheme, _, found := strings.Cut(bare, ":")
		return !found || strings.ContainsAny(scheme, "/?#") ||
			slices.Contains([]string{"http", "https", "mailto", "tel"}, scheme)
	case "src":
		return element == "img" && isInlineImage(value)
	case "type":
		return element == "input" && value == "checkbox"
	case "tabindex":
		return (element == "pre" || element == "div") && value == "0"
	}
	return true
}

// isInlineImage reports whether the address has the image itself, so that a browser loads nothing.
func isInlineImage(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "data" {
		return false
	}
	format, content, _ := strings.Cut(u.Opaque, ";base64,")
	_, err = base64.StdEncoding.DecodeString(content)
	return err == nil && content != "" && u.RawQuery == "" && u.Fragment == "" &&
		slices.Contains([]string{"image/png", "image/gif", "image/jpeg", "image/webp"}, format)
}

// attacks are texts that would run a script, load a resource or take over the page if they were
// rendered unchanged.
var attacks = []string{
	"<script>alert(1)</script>",
	"a <script>alert(1)</script> b",
	"<SCRIPT SRC=//evil></SCRIPT>",
	"<scr\x00ipt>alert(1)</scr\x00ipt>",
	"<img src=x onerror=alert(1)>",
	"a <img src=x onerror=alert(1)> b",
	"<svg onload=alert(1)>",
	"<svg><script>alert(1)</script></svg>",
	"<math><mi//xlink:href=\"data:x,<script>alert(4)</script>\">",
	"<!-- <script>alert(1)</script> -->",
	"<!--><script>alert(1)</script>-->",
	"<iframe src=//evil></iframe>",
	"<style>body{background:url(//evil)}</style>",
	"<link rel=stylesheet href=//evil>",
	"<meta http-equiv=refresh content=0;url=//evil>",
	"<base href=//evil>",
	"<form action=//evil><button>a</button></form>",
	"<a href=javascript:alert(1)>a</a>",
	"</main></body><script>alert(1)</script>",
	"<?php ?><script>alert(1)</script>",
	"<![CDATA[<script>alert(1)</script>]]>",
	"<details ontoggle=alert(1) open>",
	"[a](javascript:alert(1))",
	"[a](JaVaScRiPt:alert(1))",
	"[a](< javascript:alert(1)>)",
	"[a](<java\tscript:alert(1)>)",
	"[a](&#106;avascript:alert(1))",
	"[a](javascript&colon;alert(1))",
	"[a](javascript&amp;colon;alert(1))",
	"[a](java&Tab;script:alert(1))",
	"[a](java&NewLine;script:alert(1))",
	"[a](javascript\\:alert(1))",
	"[a](\x01javascript:alert(1))",
	"[a](vbscript:x)",
	"[a](data:text/html,<script>alert(1)</script>)",
	"[a](data:image/svg+xml;base64,PHN2Zy8+)",
	"[a](file:///etc/passwd)",
	"[a](ftp://evil/x)",
	"[a](ws://evil/x)",
	"[a](intent://evil#Intent;end)",
	"<ftp://evil/x>",
	"[a](blob:https://example.com/x)",
	"[a]: javascript:alert(1)\n\n[a]",
	"<javascript:alert(1)>",
	"<data:text/html,x>",
	"[a](x \"\\\" onmouseover=alert(1) x=\\\"\")",
	"[a](x\"onmouseover=alert(1))",
	"![a](javascript:alert(1))",
	"![a](https://evil/x.png)",
	"![a](//evil/x.png)",
	"![a](x.png)",
	"![a](https://evil/" + pixel + ")",
	"![a](https://evil/?" + pixel + ")",
	"![a](//evil/#" + pixel + ")",
	"![a](x" + pixel + ")",
	"![a](" + pixel + "?x)",
	"![a](" + pixel + "&#10;//evil)",
	"![\" onerror=alert(1) x=\"](" + pixel + ")",
	"![a](data:image/svg+xml;base64,PHN2Zy8+)",
	"![a](data:image/png;base64,AA==\"onerror=alert(1))",
	"![<script>alert(1)</script>](x)",
	"```\"><script>alert(1)</script>\n```",
	"```\n</code></pre><script>alert(1)</script>\n```",
	"# a\" onclick=alert(1) {#x onclick=alert(1)}",
	"# <script>alert(1)</script>",
	"a|b\n-|-\n<script>alert(1)</script>|<img src=x onerror=alert(1)>",
	"https://evil\"onmouseover=alert(1)",
	"www.evil.com/<script>alert(1)</script>",
	"a@evil.com\"><script>alert(1)</script>",
	"\xff\xfe<script>alert(1)</script>",
	"[a](http://[::1]:namedport)",
	"[a](%zz)",
}

func TestAttacksAreSanitized(t *testing.T) {
	for _, attack := range attacks {
		t.Run(attack, func(t *testing.T) {
			page := rendered(attack)
			if found := unsafeParts(t, page); found != nil {
				t.Errorf("%q is rendered with %q:\n%s", attack, found, page)
			}
		})
	}
}

// unsafeParts must detect each kind of attack.
func TestUnsafeParts(t *testing.T) {
	for page, want := range map[string][]string{
		`<p>a <a href="b.html">b</a> <a href="a/b:c">d</a></p>`: nil,
		`<script>x</script>`:                     {"element script"},
		`<p><svg onload="x"></svg></p>`:          {"element svg", "attribute onload=x of svg"},
		`<a href=" java&#9;script:x">`:           {"attribute href= java\tscript:x of a"},
		`<img src="` + pixel + `">`:              nil,
		`<img src="//evil/` + pixel + `">`:       {"attribute src=//evil/" + pixel + " of img"},
		`<img src="https://evil/` + pixel + `">`: {"attribute src=https://evil/" + pixel + " of img"},
		`<img src="` + pixel + `?x">`:            {"attribute src=" + pixel + "?x of img"},
		`<img src="data:text/html;base64,AAAA">`: {"attribute src=data:text/html;base64,AAAA of img"},
		`<input type="image" src="x">`:           {"attribute type=image of input", "attribute src=x of input"},
		`<img src="x" onerror="y">`:              {"attribute src=x of img", "attribute onerror=y of img"},
		`<p style="position:fixed">a</p>`:        {"attribute style=position:fixed of p"},
	} {
		if diff := cmp.Diff(want, unsafeParts(t, page)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", page, diff)
		}
	}
}

// parts are texts that are seldom repeated in a page.
var parts = []string{
	">", "+ ", "1) ", "> + ", "[", "[a](", `[a](b "`, "![", "[a]: b\n", "*a_ ", "*_**__a", "~~a ~", "`", `\[`, "&#x41;&am",
	"<a b='", "a <!--", "a <? ", "a <![CDATA[", "#\n", "a\n===\n", "a|b\n-|-\n", "https://a.b/(*", "a@a.", " ", "\t", "\x00",
	"```\na\n```\n", "    a\n\n", "---\n",
}

// FuzzHTML checks for any text that nothing panics, that the page has only safe elements, and that
// the same text gives the same page.
func FuzzHTML(f *testing.F) {
	for _, attack := range attacks {
		f.Add([]byte(attack))
	}
	for _, part := range parts {
		f.Add([]byte(strings.Repeat(part, 20)))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		page := rendered(string(source))
		if found := unsafeParts(t, page); found != nil {
			t.Errorf("%q is rendered with %q:\n%s", source, found, page)
		}
		if again := rendered(string(source)); page != again {
			t.Errorf("%q is rendered differently the second time", source)
		}
	})
}
