// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
)

// Nothing of a long page is left out.
func TestLongPages(t *testing.T) {
	row := "| [name](page1.md) | `code` | **yes** | a longer text (with *emphasis*), and a [link](https://example.com) |\n"
	for name, tc := range map[string]struct {
		source, element string
		want            int
	}{
		"LongTable":     {"|a|b|c|d|\n|-|-|-|-|\n" + strings.Repeat(row, 5000), "<tr>", 5001},
		"LongParagraph": {strings.Repeat("[link](page1.md) and `code` and *emphasis*\n", 1000), "<a ", 1000},
		"LongBook": {strings.Repeat("# Heading\n\n"+strings.Repeat("A *text* with [links](a.md).\n", 20)+"\n", 1500),
			"<a ", 30000},
		"References": {strings.Repeat("[a]\n", 1000) + "\n" + strings.Repeat("[a]: b.md\n", 1000), "<a ", 1000},
		"DeepList":   {nested(1000), "<ul>", 31},
		"Data":       {"```\n" + strings.Repeat(`{"a": ["b", "c"]}`+"\n", 40000) + "```\n\n*a*", "<em>", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Count(rendered(tc.source), tc.element); got != tc.want {
				t.Errorf("%d times %s, want %d, in %d KiB", got, tc.element, tc.want, len(tc.source)>>10)
			}
		})
	}
}

func nested(n int) string {
	var b strings.Builder
	for indent := 0; b.Len() < n; indent += 2 {
		b.WriteString(strings.Repeat(" ", indent) + "- a\n")
	}
	return b.String()
}

const size = 900 << 10 // the limit of a MarkdownView

func BenchmarkHTML(b *testing.B) {
	source := []byte(
		strings.Repeat("# Heading\n\nA *text* with [links](a.md), `code` and more words than that.\n\n- a\n- b\n\n", size/80))
	b.SetBytes(int64(len(source)))
	for b.Loop() {
		HTML(source)
	}
}
