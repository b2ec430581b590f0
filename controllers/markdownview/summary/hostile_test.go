package summary

import (
	"path"
	"strings"
	"testing"
	"time"
)

// hostile are texts of about n bytes that are slow to parse. Each has line breaks at intervals
// below MaxLineBytes, because longer lines are ignored.
var hostile = map[string]func(n int) string{
	"Brackets":       repeat("["),
	"ClosedBrackets": func(n int) string { return lines(strings.Repeat("[", 255)+strings.Repeat("]", 255), n) },
	"LinkInLink":     repeat("[a]("),
	"Images":         repeat("!["),
	"Parentheses":    func(n int) string { return lines("[a]("+strings.Repeat("(", 500), n) },
	"Titles":         repeat(`[a](b "`),
	"Emphasis":       repeat("*a_ "),
	"MixedEmphasis":  repeat("*_**__a"),
	"Stars":          repeat("*"),
	"Ticks":          repeat("`a``b```c"),
	"Tags":           repeat("<a b='"),
	"Comments":       repeat("a <!-- "),
	"Instructions":   repeat("a <? "),
	"Entities":       repeat("&#x41;&am"),
	"Escapes":        repeat(`\[`),
	"ListsInLine":    repeat("+ "),
	"NumbersInLine":  repeat("1) "),
	"ListsInList": func(n int) string {
		var b strings.Builder
		for indent := 0; b.Len() < n; indent = (indent + 2) % 480 {
			b.WriteString(strings.Repeat(" ", indent) + "- [a](b.md)\n")
		}
		return b.String()
	},
	"Quotes":     repeat("> "),
	"References": repeatLine("[a]: b"),
	"Links":      repeatLine("- [a](b.md)"),
	"Headings":   repeatLine("# *a* {#b}"),
	"Rules":      repeatLine("---"),
	"Fences":     repeatLine(fence),
	"Underlines": repeatLine("a\n==="),
	"OneLine":    func(n int) string { return strings.Repeat("[", n) },
	"Nothing":    func(n int) string { return strings.Repeat("\x00", n) },
	"LineEnds":   func(n int) string { return strings.Repeat("\n", n) },
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

func BenchmarkParseHostile(b *testing.B) {
	for name, text := range hostile {
		source := []byte(text(900 << 10))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Parse(source)
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
