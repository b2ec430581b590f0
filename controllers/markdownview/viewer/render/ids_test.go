// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// idsOf returns the IDs of the headings of a page.
func idsOf(t *testing.T, source string) []string {
	t.Helper()
	var all []string
	for _, root := range parse(t, rendered(source)) {
		for n := range root.Descendants() {
			all = appendID(all, n)
		}
		all = appendID(all, root)
	}
	return all
}

func appendID(all []string, n *html.Node) []string {
	for _, a := range n.Attr {
		if a.Key == "id" {
			all = append(all, a.Val)
		}
	}
	return all
}

// IDs are those of GitHub and mdBook: made of the text that is shown.
func TestHeadingIDs(t *testing.T) {
	for source, want := range map[string][]string{
		"## max_connections":                        {"max_connections"},
		"## documents.add_message":                  {"documentsadd_message"},
		"# Über uns!":                               {"über-uns"},
		"# 概要 と 使い方":                                {"概要-と-使い方"},
		"# A – B & C":                               {"a--b--c"},
		"# 1.2.3 (2026)":                            {"123-2026"},
		"# *a* **b** ~~c~~ `d_e`":                   {"a-b-c-d_e"},
		"# _a_b_ __c__":                             {"a_b-c"},
		"# [a *b*](https://example.com/x_y) c":      {"a-b-c"},
		"# [a][r]\n\n[r]: b.md":                     {"a"},
		"# <https://example.com/a>":                 {"httpsexamplecoma"},
		"# see https://example.com/a":               {"see-httpsexamplecoma"},
		"# ![logo](a.png) a":                        {"a"},
		"# a &amp; b &lt;c&gt; &#100;":              {"a--b-c-d"},
		"# `&amp;` \\*a\\*":                         {"amp-a"},
		"## Tree with C++ <a id=\"chapter-8\"></a>": {"tree-with-c"},
		"## Tools &nbsp;[<sup>[TOP]</sup>](#book)":  {"tools-top"},
		"# <img src=x> a <br> b":                    {"a--b"},
		"# a <!-- b --> c":                          {"a--c"},
		"# A\n# a\n# A\n# A 1":                      {"a", "a-1", "a-2", "a-1-1"},
		"# A-1\n# A\n# A":                           {"a-1", "a", "a-2"},
		"a\nb\n===\n\nc\n---":                       {"a-b", "c"},
		"a  \nb\\\nc\n===":                          {"a-b-c"},
		"a *b\nc* d\n===":                           {"a-b-c-d"},
		"> # a\n\n- # a":                            {"a", "a-1"},
		"# ?\n# !":                                  {"heading", "heading-1"},
		"#":                                         {"heading"},
		"# Content":                                 {"content"},
		"# a b ##":                                  {"a-b"},
		"# \xff a":                                  {"a"},
		"\uFEFF# a":                                 {"a"},
		"\uFEFF\r\n# a\r\n\r\nb\r\n===\r\n":         {"a", "b"},
		"# a\r# b\r":                                {"a", "b"},
		"# a\tb":                                    {"ab"},
		"# \u0939\u093f\u0928\u094d\u0926\u0940":    {"\u0939\u093f\u0928\u094d\u0926\u0940"},
		"# ÅNGSTRÖM ΣΑΣ":                            {"ångström-σασ"},
		"# 🚀 a":                                     {"-a"},
		"# a {#b}":                                  {"a-b"},
		"# H~2~O x² ½":                              {"h2o-x²-½"},
	} {
		if got := idsOf(t, source); !slices.Equal(got, want) {
			t.Errorf("%q has the IDs %q, want %q", source, got, want)
		}
	}
}

// readmes is the variable with a folder of READMEs, such as the cache of Go modules.
const readmes = "VIEWER_READMES"

var notInIDs = regexp.MustCompile(`[^\p{L}\p{M}\p{N}\p{Pc} -]`)

// Each link within a README that leads to a heading on GitHub, by the text that is shown, does so here.
func TestLinksOfREADMEs(t *testing.T) {
	root := os.Getenv(readmes)
	if root == "" {
		t.Skip(readmes + " is not set")
	}
	pages, links, dead := 0, 0, 0
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.EqualFold(filepath.Base(path), "README.md") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		ids, headings, wanted := map[string]bool{}, map[string]bool{}, []string{}
		for _, root := range parse(t, "<div>"+rendered(string(source))+"</div>") {
			for n := range root.Descendants() {
				for _, id := range appendID(nil, n) {
					ids[id] = true
					text := strings.ToLower(strings.TrimSpace(textOf(n)))
					headings[strings.ReplaceAll(notInIDs.ReplaceAllString(text, ""), " ", "-")] = true
				}
				for _, a := range n.Attr {
					if fragment, ok := strings.CutPrefix(a.Val, "#"); ok && a.Key == "href" && fragment != "" {
						wanted = append(wanted, fragment)
					}
				}
			}
		}
		pages, links = pages+min(len(wanted), 1), links+len(wanted)
		for _, fragment := range wanted {
			decoded, err := url.PathUnescape(fragment)
			if ids[decoded] {
				continue
			}
			dead++
			t.Logf("%s: #%s leads nowhere, %v", path, fragment, err)
			if headings[strings.ToLower(decoded)] {
				t.Errorf("%s: #%s has a heading", path, fragment)
			}
		}
		return nil
	})
	t.Logf("%d pages with %d links within the page, %d lead nowhere, %v", pages, links, dead, err)
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}
