// SPDX-License-Identifier: Apache-2.0

package render

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fence starts and ends a code block.
const fence = "```"

func TestContents(t *testing.T) {
	chapter := func(title, file string, depth int) Entry {
		href := ""
		if file != "" {
			href = PageName(file)
		}
		return Entry{Title: title, File: file, Href: href, Depth: depth}
	}
	chapters := func(list ...Entry) Summary { return Summary{Entries: list} }
	a, b := chapter("A", "a.md", 0), chapter("B", "b.md", 0)
	for reason, tc := range map[string]struct {
		source string
		want   Summary
	}{
		"each part of the format": {`# The book

[Preface](preface.md)

# Use

- [Install](install.md)
  - [From source](source.md)
    1. [Deep](deep.md)
- [Later]()

---

# Extend
* [API](api.md "hover")

[Thanks](thanks.md)
[Licence](licence.md)
`,
			Summary{Title: "The book", Entries: []Entry{
				chapter("Preface", "preface.md", 0),
				{Kind: Part, Title: "Use"},
				chapter("Install", "install.md", 0),
				chapter("From source", "source.md", 1),
				chapter("Deep", "deep.md", 2),
				chapter("Later", "", 0),
				{Kind: Separator},
				{Kind: Part, Title: "Extend"},
				chapter("API", "api.md", 0),
				chapter("Thanks", "thanks.md", 0),
				chapter("Licence", "licence.md", 0),
			}}},
		"nothing is nothing":    {"", Summary{}},
		"the title is optional": {"- [A](a.md)", chapters(a)},
		"a heading after a link is a part, not the title": {"[A](a.md)\n# Part\n",
			chapters(a, Entry{Kind: Part, Title: "Part"})},
		"a heading after the title is a part": {"# T\n# Part\n- [A](a.md)",
			Summary{Title: "T", Entries: []Entry{{Kind: Part, Title: "Part"}, a}}},
		"mdBook reads only the first level": {"# T\n## no\n", Summary{Title: "T"}},
		"line ends of another system": {"# T\r\n\r\n- [A](a.md)\r\n",
			Summary{Title: "T", Entries: []Entry{a}}},
		"some editors write a byte order mark": {"\uFEFF# T\n\n- [A](a.md)\n",
			Summary{Title: "T", Entries: []Entry{a}}},
		"titles are plain text": {"- [A *b* `c<d>` &amp; \\* ![pic](x.png)](a.md)",
			chapters(chapter("A b c<d> & * pic", "a.md", 0))},
		"in code nothing is a link, entity or an escape": {"- [`&amp;\\*`](a.md)",
			chapters(chapter("&amp;\\*", "a.md", 0))},
		"without a title the file's name serves": {"- [](a.md)\n- []()", chapters(chapter("a.md", "a.md", 0))},
		"what is commented out is not listed":    {"<!--\n- [A](a.md)\n-->\n- [B](b.md)", chapters(b)},
		"an example is not listed":               {fence + "\n[A](a.md)\n" + fence + "\n[B](b.md)", chapters(b)},
		"neither is code in a line":              {"`[A](a.md)` [B](b.md)", chapters(b)},
		"an image is no chapter":                 {"![A](a.md)", Summary{}},
		"a reference": {"- [A]\n- [also A][a]\n\n[A]: a.md",
			chapters(a, chapter("also A", "a.md", 0))},
		"a link over two lines": {"- [A\n  b](a.md)", chapters(chapter("A b", "a.md", 0))},
		"a part of a page": {"- [A](a.md#b)",
			chapters(Entry{Title: "A", File: "a.md", Href: "a.html#b"})},
		"another site": {"- [S](https://example.com/a.md)",
			chapters(Entry{Title: "S", Href: "https://example.com/a.md"})},
		"a script": {"- [S](javascript:alert)", chapters(chapter("S", "", 0))},
		"a file of another type": {"- [S](a.txt)\n- [S](/a.md)",
			chapters(chapter("S", "", 0), chapter("S", "", 0))},
		"a file in a folder": {"- [S](sub/a.md)",
			chapters(Entry{Title: "S", File: "sub/a.md"})},
		"an underlined title": {"The\nbook\n===\n- [A](a.md)",
			Summary{Title: "The book", Entries: []Entry{a}}},
		"a quote is no list": {"> - [A](a.md)", Summary{}},
	} {
		t.Run(reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Contents([]byte(tc.source))); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzContents checks for any text that nothing panics, and that files are relative and cleaned.
func FuzzContents(f *testing.F) {
	for _, part := range parts {
		f.Add(strings.Repeat(part, 20))
	}
	f.Add("# T\n[P](p.md)\n- [A](a.md)\n  - [B](sub/../b.md#x)\n- [D]()\n---\n# Part\n")
	f.Add("- [\xff](%00.md)\n- [&#0;](\x01.md)\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range Contents([]byte(text)).Entries {
			if e.File != "" && path.Clean(e.File) != e.File || strings.HasPrefix(e.File, "/") {
				t.Errorf("file %q is not relative and cleaned", e.File)
			}
			if e.Depth < 0 || (e.Title == "") != (e.Kind == Separator) {
				t.Errorf("title %q of kind %q at depth %d", e.Title, e.Kind, e.Depth)
			}
			scheme, _, ok := strings.Cut(e.Href, ":")
			if ok && !slices.Contains([]string{"http", "https", "mailto", "tel"}, scheme) {
				t.Errorf("the entry %q leads to %q", e.Title, e.Href)
			}
		}
	})
}
