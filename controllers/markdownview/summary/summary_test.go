package summary

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fence starts and ends a code block.
const fence = "```"

func TestParse(t *testing.T) {
	chapter := func(title, file string, depth int) Entry { return Entry{Title: title, File: file, Depth: depth} }
	for name, tc := range map[string]struct {
		reason, source string
		want           Summary
	}{
		"Everything": {
			reason: "a table of contents with each part of the format",
			source: `# The book

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
			want: Summary{Title: "The book", Entries: []Entry{
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
			}},
		},
		"Empty": {reason: "nothing is nothing", source: "", want: Summary{}},
		"NoHeading": {reason: "the title is optional", source: "- [A](a.md)",
			want: Summary{Entries: []Entry{chapter("A", "a.md", 0)}}},
		"LateHeading": {
			reason: "a heading after a link is a part, not the title",
			source: "[A](a.md)\n# Part\n",
			want:   Summary{Entries: []Entry{chapter("A", "a.md", 0), {Kind: Part, Title: "Part"}}},
		},
		"SecondLevel": {reason: "mdBook knows only the first level", source: "# T\n## no\n", want: Summary{Title: "T"}},
		"Windows": {reason: "line ends of another system", source: "# T\r\n\r\n- [A](a.md)\r\n",
			want: Summary{Title: "T", Entries: []Entry{chapter("A", "a.md", 0)}}},
		"ByteOrderMark": {
			reason: "some editors write one", source: "\uFEFF# T\n\n- [A](a.md)\n",
			want: Summary{Title: "T", Entries: []Entry{chapter("A", "a.md", 0)}},
		},
		"Marks": {
			reason: "titles are plain text", source: "- [A *b* `c<d>` &amp; \\* ![pic](x.png)](a.md)",
			want: Summary{Entries: []Entry{chapter("A b c<d> & * pic", "a.md", 0)}},
		},
		"CodeIsCode": {
			reason: "in code nothing is a link, an entity or an escape", source: "- [`&amp;\\*`](a.md)",
			want: Summary{Entries: []Entry{chapter("&amp;\\*", "a.md", 0)}},
		},
		"NoTitle": {reason: "the file's name serves", source: "- [](a.md)\n- []()",
			want: Summary{Entries: []Entry{chapter("a.md", "a.md", 0)}}},
		"Comment": {reason: "what is commented out is not listed", source: "<!--\n- [A](a.md)\n-->\n- [B](b.md)",
			want: Summary{Entries: []Entry{chapter("B", "b.md", 0)}}},
		"Fence": {reason: "an example is not listed", source: fence + "\n[A](a.md)\n" + fence + "\n[B](b.md)",
			want: Summary{Entries: []Entry{chapter("B", "b.md", 0)}}},
		"Code": {reason: "neither is code in a line", source: "`[A](a.md)` [B](b.md)",
			want: Summary{Entries: []Entry{chapter("B", "b.md", 0)}}},
		"Image":     {reason: "an image is no chapter", source: "![A](a.md)", want: Summary{}},
		"Reference": {reason: "references are not of the format", source: "[A]\n\n[A]: a.md", want: Summary{}},
		"Site": {reason: "another site is listed, but is no file", source: "- [S](https://example.com/a.md)",
			want: Summary{Entries: []Entry{chapter("S", "", 0)}}},
		"LongLine": {
			reason: "a line over the bound is passed over, and said",
			source: "- [" + strings.Repeat("x", MaxLineBytes) + "](a.md)\n- [B](b.md)\n",
			want:   Summary{Truncated: true, Entries: []Entry{chapter("B", "b.md", 0)}},
		},
		"LongText": {
			reason: "the bound falls between lines, and is said",
			source: "- [A](a.md)\n" + strings.Repeat(" \n", MaxBytes/2) + "- [B](b.md)\n",
			want:   Summary{Truncated: true, Entries: []Entry{chapter("A", "a.md", 0)}},
		},
		"OneLine": {reason: "no line ends before the bound", source: strings.Repeat("x", MaxBytes+1),
			want: Summary{Truncated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Parse([]byte(tc.source))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLocalFile(t *testing.T) {
	for destination, want := range map[string]string{
		"a.md":                     "a.md",
		"./a.md":                   "a.md",
		"././a.md#part":            "a.md",
		"a.md?x=y":                 "a.md",
		"x/../a.md":                "a.md",
		"a%2Db.md":                 "a-b.md",
		"sub/a.md":                 "sub/a.md",
		"../a.md":                  "../a.md",
		"x/../../a.md":             "../a.md",
		"":                         "",
		"#part":                    "",
		"?x":                       "",
		"a.txt":                    "",
		"a.MD":                     "",
		"/a.md":                    "",
		"//host/a.md":              "",
		"https://example.com/a.md": "",
		"mailto:a@b.md":            "",
		"javascript:a.md":          "",
		"a%ZZ.md":                  "",
		"a.md/":                    "",
	} {
		if got := LocalFile(destination); got != want {
			t.Errorf("LocalFile(%q) = %q, want %q", destination, got, want)
		}
	}
}

func TestIsFileName(t *testing.T) {
	for name, want := range map[string]bool{
		"a.md": true, "_a.b-c.md": true, FileName: true, "0.md": true, strings.Repeat("x", 250) + ".md": true,
		".md": false, "": false, "a": false, "..md": false, ".a.md": false, "-a.md": false, "a/b.md": false, "../a.md": false,
		"a.md\n": false, "ä.md": false, "a.MD": false, strings.Repeat("x", 251) + ".md": false,
	} {
		if got := IsFileName(name); got != want {
			t.Errorf("IsFileName(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		files  map[string]string
		want   Problems
	}{
		"Good": {
			reason: "each file is listed, each link leads to one; SUMMARY.md needs no link, and may have one",
			files: map[string]string{FileName: "- [S](SUMMARY.md)\n- [A](./a.md#top)\n- [Later]()\n- " +
				"[Site](https://example.com/x.md)", "a.md": ""},
		},
		"Missing": {
			reason: "in the order of the links, each once, and what can never be there too",
			files: map[string]string{FileName: "- [Z](z.md)\n- [A](a.md)\n- [Z](z.md#again)\n- [Sub](sub/b.md)\n- " +
				"[Out](../c.md)"},
			want: Problems{Missing: []string{"z.md", "a.md", "sub/b.md", "../c.md"}},
		},
		"Unlisted": {
			reason: "sorted; a link from another page does not count",
			files:  map[string]string{FileName: "- [A](a.md)", "a.md": "[C](c.md)", "c.md": "", "b.md": ""},
			want:   Problems{Unlisted: []string{"b.md", "c.md"}},
		},
		"NoSummary": {
			reason: "nothing is listed then",
			files:  map[string]string{"b.md": "", "a.md": ""},
			want:   Problems{Unlisted: []string{"a.md", "b.md"}},
		},
		"Truncated": {
			reason: "what was not read may list the file",
			files:  map[string]string{FileName: "- [X](x.md)\n" + strings.Repeat("\n", MaxBytes), "a.md": ""},
			want:   Problems{Truncated: true, Missing: []string{"x.md"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Check(tc.files)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
