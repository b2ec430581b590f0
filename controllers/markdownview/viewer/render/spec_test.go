// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// The examples of CommonMark's specification, which are in goldmark's module, are rendered as it says,
// but for what the viewer changes: IDs of headings, raw HTML, images and addresses.
func TestCommonMarkExamples(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/yuin/goldmark").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "_test", "spec.json"))
	if err != nil {
		t.Skip("goldmark's module has no examples: ", err)
	}
	var examples []struct {
		Markdown, HTML, Section string
		Example                 int
	}
	if err := json.Unmarshal(text, &examples); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, e := range examples {
		page := rendered(e.Markdown)
		if strings.Contains(e.HTML, "<img") || strings.Contains(page, "raw HTML omitted") {
			continue
		}
		compared++
		if want, got := plain(t, e.HTML), plain(t, page); want != got {
			t.Errorf("%d, %s: %q\n got %s\nwant %s", e.Example, e.Section, e.Markdown, got, want)
		}
	}
	if compared < 550 {
		t.Errorf("only %d examples of %d were compared", compared, len(examples))
	}
}

var anchors = regexp.MustCompile(`</?a>| +(<br/>)`)

// plain returns HTML without attributes and links.
func plain(t *testing.T, source string) string {
	t.Helper()
	var b strings.Builder
	for _, root := range parse(t, "<div>"+source+"</div>") {
		for n := range root.Descendants() {
			n.Attr = nil
		}
		if err := html.Render(&b, root); err != nil {
			t.Fatal(err)
		}
	}
	return anchors.ReplaceAllString(b.String(), "$1")
}
