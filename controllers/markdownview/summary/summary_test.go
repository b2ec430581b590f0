package summary

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fence starts and ends a code block.
const fence = "```"

func TestParse(t *testing.T) {
	chapter := func(title, file string, depth int) Entry { return Entry{Title: title, File: file, Depth: depth} }
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
		"mdBook reads only the first level": {"# T\n## no\n", Summary{Title: "T"}},
		"line ends of another system": {"# T\r\n\r\n- [A](a.md)\r\n",
			Summary{Title: "T", Entries: []Entry{a}}},
		"some editors write a byte order mark": {"\uFEFF# T\n\n- [A](a.md)\n",
			Summary{Title: "T", Entries: []Entry{a}}},
		"titles are plain text": {"- [A *b* `c<d>` &amp; \\* ![pic](x.png)](a.md)",
			chapters(chapter("A b c<d> & * pic", "a.md", 0))},
		"in code nothing is a link, entity or an escape": {"- [`&amp;\\*`](a.md)", chapters(chapter("&amp;\\*", "a.md", 0))},
		"without a title the file's name serves":         {"- [](a.md)\n- []()", chapters(chapter("a.md", "a.md", 0))},
		"what is commented out is not listed":            {"<!--\n- [A](a.md)\n-->\n- [B](b.md)", chapters(b)},
		"an example is not listed":                       {fence + "\n[A](a.md)\n" + fence + "\n[B](b.md)", chapters(b)},
		"neither is code in a line":                      {"`[A](a.md)` [B](b.md)", chapters(b)},
		"an image is no chapter":                         {"![A](a.md)", Summary{}},
		"references are not of the format":               {"[A]\n\n[A]: a.md", Summary{}},
		"another site is listed, but is no file":         {"- [S](https://example.com/a.md)", chapters(chapter("S", "", 0))},
		"a line over the bound is ignored, and reported": {
			"- [" + strings.Repeat("x", MaxLineBytes) + "](a.md)\n- [B](b.md)\n",
			Summary{Truncated: true, Entries: []Entry{b}}},
		"the bound falls between lines, and is reported": {
			"- [A](a.md)\n" + strings.Repeat(" \n", MaxBytes/2) + "- [B](b.md)\n",
			Summary{Truncated: true, Entries: []Entry{a}}},
		"no line ends before the bound": {strings.Repeat("x", MaxBytes+1), Summary{Truncated: true}},
	} {
		t.Run(reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Parse([]byte(tc.source))); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
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
	for reason, tc := range map[string]struct {
		files map[string]string
		want  Problems
	}{
		"each file is listed, each link leads to one; SUMMARY.md needs no link, and may have one": {
			files: map[string]string{FileName: "- [S](SUMMARY.md)\n- [A](./a.md#top)\n- [Later]()\n- " +
				"[Site](https://example.com/x.md)", "a.md": ""},
		},
		"missing files are in the order of the links, each once, also those that can never be there": {
			map[string]string{FileName: "- [Z](z.md)\n- [A](a.md)\n- [Z](z.md#again)\n- [Sub](sub/b.md)\n- [Out](../c.md)"},
			Problems{Missing: []string{"z.md", "a.md", "sub/b.md", "../c.md"}},
		},
		"unlisted files are sorted; a link from another page does not count": {
			map[string]string{FileName: "- [A](a.md)", "a.md": "[C](c.md)", "c.md": "", "b.md": ""},
			Problems{Unlisted: []string{"b.md", "c.md"}},
		},
		"without SUMMARY.md nothing is listed": {
			map[string]string{"b.md": "", "a.md": ""}, Problems{Unlisted: []string{"a.md", "b.md"}}},
		"what was not read may list the file": {
			map[string]string{FileName: "- [X](x.md)\n" + strings.Repeat("\n", MaxBytes), "a.md": ""},
			Problems{Truncated: true, Missing: []string{"x.md"}}},
	} {
		t.Run(reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Check(tc.files)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// hostile are texts of about n bytes that are slow to parse. Each has line breaks at intervals
// below MaxLineBytes, because longer lines are ignored.
var hostile = map[string]func(n int) string{
	"Brackets":       repeat("["),
	"ClosedBrackets": func(n int) string { return lines(strings.Repeat("[", 255)+strings.Repeat("]", 255), n) },
	"LinkInLink":     repeat("[a]("),
	"Parentheses":    func(n int) string { return lines("[a]("+strings.Repeat("(", 500), n) },
	"Titles":         repeat(`[a](b "`),
	"MixedEmphasis":  repeat("*_**__a"),
	"Ticks":          repeat("`a``b```c"),
	"Comments":       repeat("a <!-- "),
	"Entities":       repeat("&#x41;&am"),
	"ListsInLine":    repeat("+ "),
	"ListsInList": func(n int) string {
		var b strings.Builder
		for indent := 0; b.Len() < n; indent = (indent + 2) % 480 {
			b.WriteString(strings.Repeat(" ", indent) + "- [a](b.md)\n")
		}
		return b.String()
	},
	"Quotes":     repeat("> "),
	"Links":      repeatLine("- [a](b.md)"),
	"Headings":   repeatLine("# *a* {#b}"),
	"Underlines": repeatLine("a\n==="),
	"OneLine":    func(n int) string { return strings.Repeat("[", n) },
	"Nothing":    func(n int) string { return strings.Repeat("\x00", n) },
}

func lines(line string, n int) string {
	return strings.Repeat(line+"\n", n/(len(line)+1)+1)
}

func repeatLine(line string) func(int) string {
	return func(n int) string { return lines(line, n) }
}

func repeat(unit string) func(int) string {
	return func(n int) string { return lines(strings.Repeat(unit, (MaxLineBytes-1)/len(unit)), n) }
}

// The limit is 100 ms on an idle machine; slack allows for a busy machine and the race detector.
// Unbounded parsing needs minutes.
const slack = 50

func TestParsingTimeIsBounded(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			source := []byte(text(900 << 10))
			start := time.Now()
			Parse(source)
			took := time.Since(start)
			t.Logf("%d KiB in %s", len(source)>>10, took.Round(time.Millisecond/10))
			if limit := slack * 100 * time.Millisecond; took > limit {
				t.Errorf("parsing took %s, want at most %s", took, limit)
			}
		})
	}
}

// FuzzCheck checks for any text that nothing panics, that depths match the nesting, that files are
// relative and cleaned, and that the problems agree with the entries.
func FuzzCheck(f *testing.F) {
	for _, text := range hostile {
		f.Add(text(200))
	}
	f.Add("# T\n[P](p.md)\n- [A](a.md)\n  - [B](sub/../b.md#x)\n- [D]()\n---\n# Part\n")
	f.Add("- [\xff](%00.md)\n- [&#0;](\x01.md)\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range Parse([]byte(text)).Entries {
			if e.File != "" && path.Clean(e.File) != e.File {
				t.Errorf("file %q is not cleaned", e.File)
			}
			if strings.HasPrefix(e.File, "/") || e.Depth < 0 || e.Depth > MaxLineBytes {
				t.Errorf("file %q at depth %d", e.File, e.Depth)
			}
			if (e.Title == "") != (e.Kind == Separator) {
				t.Errorf("title %q of kind %d", e.Title, e.Kind)
			}
		}
		p := Check(map[string]string{FileName: text, "a.md": ""})
		listed := false
		for _, e := range Parse([]byte(text)).Entries {
			listed = listed || e.File == "a.md"
		}
		if want := !listed && !p.Truncated; (len(p.Unlisted) == 1) != want {
			t.Errorf("unlisted %q, want that: %t", p.Unlisted, want)
		}
	})
}
