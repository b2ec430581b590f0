// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/markdownview/viewer/markdown"
	viewer "leasehold.dev/controllers/markdownview/viewer/render"
)

// A warning names the first line with HTML, which only other viewers show.
func TestLineOfHTML(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a < b > c": 0, "<https://example.com/>": 0, "<a@example.com>": 0, "`<br>`": 0, "<!-- a -->": 0, "1 <2>": 0,
		"<!--\n<br>\n-->\n<br>": 4, "```\n<br>\n```\n": 0, "~~~html\n<br>\n~~~": 0, "    <br>": 0, "a\n\n    <br>\n": 0,
		"\t<br>": 0, "````\n```\n<br>\n````": 0, "```\n~~~\n<br>\n```": 0, "```\n``` a\n<br>\n```": 0,
		"```\n    ```\n<br>\n```": 0, "```\n````\n<br>": 3, "``` a`b\n<br>": 2, "> ```\n> <br>\n> ```": 0,
		"- ```\n  <br>\n  ```\n- <br>": 0, "1. a\n\n   ```\n   <br>\n   ```": 0, `\\<br>`: 0, "[a](<b>)": 0,
		"if a <b and c": 0, "a <b 5>": 0, "---\na: <br>\n---\n<br>": 4, "a\r\n<br>\r\n": 2,
		"<br>": 1, "a<br/>b": 1, "# a <a id=\"b\"></a>": 1, "a\n</details>": 2, "```\na\n```\n<img src=a>": 4,
		"vector<int> a":   1,
		"<details\nopen>": 1, "- a\n  <p>": 2,
	} {
		if got := lineOfHTML(text); got != want {
			t.Errorf("%q has HTML on line %d, want %d", text, got, want)
		}
	}
	html := showing(files{"SUMMARY.md": "[A](a.md)", "a.md": "a\n<br>\n"})
	for image, want := range map[string]int{"": 1, "mdbook:1": 0} {
		v := view(html)
		v.Spec.ViewerImage = image
		warnings, err := (&Webhook{}).ValidateCreate(t.Context(), v)
		if len(warnings) != want || err != nil || want > 0 && !strings.Contains(warnings[0], "a.md has HTML on line 2") {
			t.Errorf("with image %q: %q, %v", image, warnings, err)
		}
	}
}

// A warning names each chapter that leads to no file, and a file that SUMMARY.md does not name.
func TestWarningsAboutLinks(t *testing.T) {
	const noFile = "SUMMARY.md links to %s on line %d, but this MarkdownView has no such file, so the chapter has " +
		"no page"
	none := func(destination string, line int) string { return fmt.Sprintf(noFile, destination, line) }
	for summary, want := range map[string][]string{
		"[A](a.md) [B](b.md)":                  nil,
		"[A](./a.md#x) [B](x/../b.md?y)":       nil,
		"[A][1]\n\n[1]: a.md\n[2]: <b.md>\n":   nil,
		"[A](a%2Emd) [B](a%2emd)\n\na.md b.md": nil,
		`[A](a\.md) [B](b&period;md)`:          nil,
		"[A](a.md)": {"SUMMARY.md does not name b.md; " +
			"number of files that it does not name, including this one: 1"},
		"[A](a.md) metab.md": {"SUMMARY.md does not name b.md; " +
			"number of files that it does not name, including this one: 1"},
		"": {"SUMMARY.md does not name a.md; " +
			"number of files that it does not name, including this one: 2"},
		"- [A](a.md)\n- [B](b.md)\n- [C](c.md)":                                             {none("c.md", 3)},
		"- [A](a.md)\n    - [B](b.md)\n    - [C](B.md)":                                     {none("B.md", 3)},
		"- [A](a.md)\n- [B](b.md)\n- [C](/a.md)":                                            {none("/a.md", 3)},
		"[A](a.md)\n[B](b.md)\n[D]() [E](https://e.org) ![F](f.md) `[G](g.md)` \\[H](h.md)": nil,
		"a.md b.md\n# [C](c.md)\n> [D](d.md)":                                               nil,
		"[A](a.md)\n[B](b.md)\n```\n[C](c.md)\n```\n<!--\n[D](d.md)\n-->\n[E](e.md)":        {none("e.md", 9)},
		"a.md b.md\n<div>\n[C](c.md)": {"SUMMARY.md has HTML on line 2; the default viewer does not render HTML; " +
			"use Markdown, or put code between backquotes"},
		"1. [A](a.md)\n    1. [B](b.md)\n    2. [C](c.md)": {none("c.md", 3)},
	} {
		v := view(showing(files{"SUMMARY.md": v1beta1.MarkdownText(summary), "a.md": "", "b.md": ""}))
		v.Spec.ViewerImage = ""
		warnings, err := (&Webhook{}).ValidateCreate(t.Context(), v)
		if diff := cmp.Diff(want, []string(warnings)); diff != "" || err != nil {
			t.Errorf("%q: %v, warnings (-want +got):\n%s", summary, err, diff)
		}
	}
	many := files{"SUMMARY.md": v1beta1.MarkdownText(strings.Repeat("- [A](x.md)\n", 10))}
	if got := warnOfLinks(many); len(got) != 9 || got[8] != "SUMMARY.md has 2 more links to files that do not exist" {
		t.Errorf("of 10 links to no file: %q", got)
	}
	most := files{"SUMMARY.md": v1beta1.MarkdownText(strings.Repeat("- [A](x.md)\n", maxLinks))}
	if got := warnOfLinks(most); len(got) != maxLinks {
		t.Errorf("of %d links to no file: %q", maxLinks, got)
	}
}

// aboutLinks matches each kind of warning about links, with what it is about.
var aboutLinks = regexp.MustCompile(`^SUMMARY\.md (links to|does not name|has) (\S+?)(?: on line|;| more links)`)

// contradictions returns the warnings about a text that are not true of what the viewer shows, and counts those of
// each kind.
func contradictions(t interface{ Fatal(...any) }, text string, warned map[string]int) []string {
	var found []string
	page := viewer.HTML([]byte(text))
	if n := lineOfHTML(text); n > 0 {
		if warned["HTML"]++; !strings.Contains(string(page), "raw HTML omitted") {
			found = append(found, fmt.Sprintf("line %d has HTML", n))
		}
	}
	all := files{markdown.SummaryName: v1beta1.MarkdownText(text), "a.md": "", "b.md": ""}
	entries := viewer.Contents([]byte(text)).Entries
	for _, warning := range warnOfLinks(all) {
		match := aboutLinks.FindStringSubmatch(warning)
		if match == nil {
			t.Fatal("a kind of warning that is not judged: ", warning)
		}
		kind, about := match[1], match[2]
		warned[kind]++
		if kind == "links to" && !slices.ContainsFunc(entries, func(e viewer.Entry) bool {
			_, exists := all[e.File]
			return e.Kind == "" && !exists && e.File == markdown.LocalFile(about) && !strings.Contains(e.Href, ":")
		}) {
			found = append(found, warning)
		}
		if kind == "does not name" && slices.ContainsFunc(entries, func(e viewer.Entry) bool { return e.File == about }) {
			found = append(found, warning)
		}
	}
	return found
}

// Admission warns of nothing that the viewer shows, in the examples of CommonMark's specification, which
// are in goldmark's module.
func TestWarningsAreTrueOfTheExamples(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/yuin/goldmark").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "_test", "spec.json"))
	if err != nil {
		t.Skip("goldmark's module has no examples: ", err)
	}
	var examples []struct{ Markdown string }
	if err := json.Unmarshal(text, &examples); err != nil || len(examples) < 600 {
		t.Fatal(len(examples), err)
	}
	warned := map[string]int{}
	for _, e := range examples {
		for _, contradiction := range contradictions(t, e.Markdown, warned) {
			t.Errorf("%q: %s", e.Markdown, contradiction)
		}
	}
	if t.Logf("warnings of the examples: %v", warned); warned["HTML"] < 40 {
		t.Errorf("only %d examples have a warning of HTML", warned["HTML"])
	}
}

// Nor does it in tables of contents of any lines.
func TestWarningsAreTrue(t *testing.T) {
	parts := []string{"- [A](a.md)", "- [B](b.md)", "[C](c.md)", "- [D](sub/d.md)", "- [E](/a.md)", "[F]: f.md", "[G](https://g.org)",
		"![H](h.md)", "# [I](i.md)", "> [J](j.md)", "`[K](k.md)`", "<!-- [L](l.md)", "-->", "<div>", "a <br> b", "~~~", "```", "````", "``` a",
		"- ```", "text", "", "", "1. [M](m.md)", "[N]()", "* * *"}
	warned := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(1, 12).Draw(t, "lines") {
			text.WriteString(strings.Repeat(" ", rapid.SampledFrom([]int{0, 0, 0, 2, 4}).Draw(t, "indent")))
			text.WriteString(rapid.SampledFrom(parts).Draw(t, "part") + "\n")
		}
		if found := contradictions(t, text.String(), warned); found != nil {
			t.Fatalf("%q: %q", text.String(), found)
		}
	})
	if warned["HTML"] == 0 || warned["links to"] == 0 || warned["does not name"] == 0 {
		t.Errorf("not each kind of warning is tested: %v", warned)
	}
}
