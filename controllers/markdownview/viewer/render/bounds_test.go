// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
	"time"
)

// hostile are texts of about n bytes for which an unbounded Markdown parser needs at least
// quadratic time.
var hostile = map[string]func(n int) string{
	"Quotes":         repeat(">"),
	"QuoteLines":     repeat("> > > > > > > > > > a\n"),
	"ListsInLine":    repeat("+ "),
	"NumbersInLine":  repeat("1) "),
	"ListsInQuotes":  repeat("> + "),
	"ListsInList":    nested,
	"Lists":          repeat("- a\n"),
	"ListsApart":     repeat("1) a\n\n"),
	"Brackets":       repeat("["),
	"ClosedBrackets": func(n int) string { return strings.Repeat("[", n/2) + strings.Repeat("]", n/2) },
	"BracketParts":   repeat(strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + "\n\n"),
	"BracketLines":   repeat("[\n"),
	"Links":          repeat("[a](b.md)"),
	"LinkInLink":     repeat("[a]("),
	"LinkTitles":     repeat(`[a](b "`),
	"Parentheses":    func(n int) string { return "[a](" + strings.Repeat("(", n) },
	"Images":         repeat("!["),
	"ImagesInImages": func(n int) string { return strings.Repeat("![", n/6) + strings.Repeat("](a)", n/6) },
	"References":     repeat("[a]: b\n"),
	"ReferenceUses":  func(n int) string { return "[a]: b\n\n" + strings.Repeat("[a] ", n/4) },
	"ReferenceCopies": func(n int) string {
		return "[a]: " + strings.Repeat("&", n/2) + "\n\n" + strings.Repeat("[a]\n\n", n/10)
	},
	"Label":          func(n int) string { return "[" + strings.Repeat("a\n", n/2) },
	"Emphasis":       repeat("*a_ "),
	"OpenEmphasis":   repeat("*a "),
	"MixedEmphasis":  repeat("*_**__a"),
	"EmphasisInside": func(n int) string { return strings.Repeat("*a ", n/6) + strings.Repeat(" a*", n/6) },
	"Stars":          repeat("*"),
	"Strikethrough":  repeat("~~a ~"),
	"Ticks":          ticks,
	"Escapes":        repeat(`\[`),
	"Entities":       repeat("&#x41;&am"),
	"Tags":           repeat("<a b='"),
	"Comments":       repeat("a <!--"),
	"Instructions":   repeat("a <? "),
	"Sections":       repeat("a <![CDATA["),
	"Declarations":   repeat("a <!A "),
	"Less":           repeat("<"),
	"Headings":       repeat("# a\n"),
	"EmptyHeadings":  repeat("#\n"),
	"EmptyQuotes":    repeat(">\n\n"),
	"DeepQuotes":     repeat(strings.Repeat(">", 31) + "- a\n\n"),
	"EmptyLists":     repeat("-\n+\n"),
	"LongHeading":    func(n int) string { return "# " + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) },
	"Underlined":     func(n int) string { return strings.Repeat("[", n/2) + strings.Repeat("]", n/2) + "\n===\n" },
	"UnderlinedMany": repeat("a\n===\n"),
	"Table":          func(n int) string { return "a|b\n-|-\n" + strings.Repeat("|\n", n/2) },
	"WideTable": func(n int) string {
		return strings.Repeat("a|", 1000) + "\n" + strings.Repeat("-|", 1000) + "\n" + strings.Repeat("|\n", n/2)
	},
	"WiderTable": func(n int) string { return strings.Repeat("a|", n/4) + "\n" + strings.Repeat("-|", n/4) + "\n|" },
	"TableCells": func(n int) string { return "a|b\n-|-\n" + strings.Repeat("*[`|", n/4) },
	"SmallTables": repeat(strings.Repeat("a|", 30) + "a\n" + strings.Repeat("-|", 30) + "-\n" +
		strings.Repeat("a\n", 10) + "\n"),
	"Delimiters":           repeat("-|-\n"),
	"BlankInLists":         func(n int) string { return strings.Repeat("- ", maxDepth) + "a\n" + strings.Repeat("\n", n) },
	"BlankInIndentedLists": func(n int) string { return nested(2*maxDepth*maxDepth) + strings.Repeat("\n", n) },
	"Addresses":            repeat("https://a.b/(*"),
	"WWW":                  repeat("www.a.b/("),
	"Mailboxes":            repeat("a@a."),
	"LongMailbox":          func(n int) string { return strings.Repeat("a", n) + "@" },
	"Spaces":               repeat(" "),
	"Tabs":                 repeat("\t"),
	"LineEnds":             repeat("\n"),
	"Hard":                 repeat("a  \n"),
	"Nothing":              repeat("\x00"),
	"Words":                repeat("word "),
	"Fences":               repeat("```\na\n```\n"),
	"Indented":             repeat("    a\n\n"),
	"Rules":                repeat("---\n"),
}

func repeat(unit string) func(int) string {
	return func(n int) string { return strings.Repeat(unit, n/len(unit)+1) }
}

func nested(n int) string {
	var b strings.Builder
	for indent := 0; b.Len() < n; indent += 2 {
		b.WriteString(strings.Repeat(" ", indent) + "- a\n")
	}
	return b.String()
}

func ticks(n int) string {
	var b strings.Builder
	for i := 1; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("`", i) + "a")
	}
	return b.String()
}

const size = 900 << 10 // the limit of a ConfigMap

// Without bounds several of these texts need minutes. The limit allows for a slow machine and the
// race detector.
func TestSlowRenderingTimeIsBounded(t *testing.T) {
	const timeLimit, growthLimit = 30 * time.Second, 16
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			source := text(size)
			start := time.Now()
			page := rendered(t, source)
			took := time.Since(start)
			t.Logf("%d KiB in %s, %d KiB out", len(source)>>10, took.Round(time.Millisecond), len(page)>>10)
			if took > timeLimit {
				t.Errorf("rendering took %s, want at most %s", took, timeLimit)
			}
			if len(page) > growthLimit*len(source) {
				t.Errorf("%d bytes became %d", len(source), len(page))
			}
		})
	}
}

// The bounds do not affect usual pages.
func TestUsualPagesAreWithinBounds(t *testing.T) {
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
		"DeepList":   {nested(maxDepth * maxDepth), "<ul>", 31},
		"Data":       {"```\n" + strings.Repeat(`{"a": ["b", "c"]}`+"\n", 40000) + "```\n\n*a*", "<em>", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Count(rendered(t, tc.source), tc.element); got != tc.want {
				t.Errorf("%d times %s, want %d, in %d KiB", got, tc.element, tc.want, len(tc.source)>>10)
			}
		})
	}
}

// Each use of a reference writes its whole destination. A small page may repeat 100,000 bytes, and a
// larger one its own length.
func TestRepeatedReferencesAreBounded(t *testing.T) {
	const long = 1000
	for name, tc := range map[string]struct{ uses, want int }{
		"WithinLeast":  {100, 100},
		"BeyondLeast":  {200, 100},
		"BeyondLength": {50_000, 251},
	} {
		t.Run(name, func(t *testing.T) {
			source := "[a]: " + strings.Repeat("x", long) + "\n\n" + strings.Repeat("[a]\n\n", tc.uses)
			page := rendered(t, source)
			links, text := strings.Count(page, "<a "), strings.Count(page, "<p>[a]</p>")
			if links != tc.want || links+text != tc.uses {
				t.Errorf("%d links and %d remain text, want %d links, in %d bytes", links, text, tc.want, len(source))
			}
		})
	}
}

// Text that exceeds the bounds is shown unformatted.
func TestTextBeyondBoundsIsKept(t *testing.T) {
	beyond := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	page := rendered(t, "before *all*\n\n"+beyond+"\n\nafter *all*")
	if got := strings.Count(page, "<em>all</em>"); got != 2 {
		t.Errorf("%d paragraphs around it are rendered, want 2", got)
	}
	if !strings.Contains(page, "<pre><code>"+beyond) {
		t.Error("the text is missing")
	}
}

// What exceeds the budget is not parsed: the number of parts that remain text counts the work that
// was done, on any machine. Each part fits alone. All parts of a page share the budget.
func TestBudgetIsSharedByThePage(t *testing.T) {
	const parts, least = 20, 12
	brackets := func(n int) string { return strings.Repeat("[", n/2) + strings.Repeat("]", n/2) }
	for name, part := range map[string]string{
		"Paragraphs": brackets(5000) + "\n\n",
		"Headings":   "# " + brackets(5000) + "\n\n",
		"References": strings.Repeat("[a]: b\n", 7000) + "\n",
		"Tables":     "a|b\n-|-\n" + strings.Repeat(brackets(700)+"|a\n", 100) + "\n",
		"Quotes":     "> " + brackets(5000) + "\n\na\n\n",
		"Lists":      "- " + brackets(5000) + "\n\n---\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got := unformatted(t, part); got != 0 {
				t.Errorf("one part: %d remain text, want none", got)
			}
			if got := unformatted(t, strings.Repeat(part, parts)); got < least {
				t.Errorf("%d parts: %d remain text, want at least %d", parts, got, least)
			}
		})
	}
}

// Each guard passes what is just within the budget of 200 million, and nothing more.
func TestEachGuardHasTheBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		text   func(n int) string
		within int
	}{
		"Heading": {func(n int) string { return "# " + strings.Repeat("*", n) + "a" }, 14141},
		// A line counts twice: before references and tables are parsed, and after.
		"Line":       {func(n int) string { return strings.Repeat("*", n) + "a" }, 9999},
		"Paragraph":  {func(n int) string { return strings.Repeat("a**********\n", n/10) }, 14130},
		"References": {func(n int) string { return strings.Repeat("[a]: b\n", n) }, 14140},
	} {
		t.Run(name, func(t *testing.T) {
			for n, want := range map[int]int{tc.within: 0, tc.within + 20: 1} {
				if got := unformatted(t, tc.text(n)); got != want {
					t.Errorf("%d: %d remain text, want %d", n, got, want)
				}
			}
		})
	}
}

// A page has a bounded number of the elements that need the most memory for each byte of the text. The
// numbers are the budget divided by their costs.
func TestElementsAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		element string
		most    int
	}{
		"EmptyHeadings":  {"<h1", budget / headingCost},
		"UnderlinedMany": {"<h1", budget / headingCost},
		"EmptyQuotes":    {"<blockquote>", budget / blockCost},
		"EmptyLists":     {"<ul>", budget / blockCost},
		"SmallTables":    {"<td", budget / cellCost},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Count(rendered(t, hostile[name](size)), tc.element); got > tc.most || got < tc.most/4 {
				t.Errorf("%d times %s, want at most %d and at least a quarter of that", got, tc.element, tc.most)
			}
		})
	}
}

// Each line costs in each list and quote that is open. Beyond the budget these end, so what follows is
// outside.
func TestLinesInListsAreBounded(t *testing.T) {
	const beyond = 2 * budget / lineCost / maxDepth
	deepList, deepQuote := strings.Repeat("- ", maxDepth)+"a\n", strings.Repeat("> ", maxDepth)
	for name, tc := range map[string]struct {
		text func(lines int) string
		in   string // the HTML of the last line within the budget
	}{
		"List": {func(n int) string {
			return deepList + strings.Repeat("\n", n) + strings.Repeat(" ", 2*maxDepth) + "end"
		}, "<p>end</p>\n</li>"},
		"Quote": {func(n int) string { return strings.Repeat(deepQuote+"\n", n) + deepQuote + "end" }, "<p>end</p>\n</blockquote>"},
	} {
		for lines, within := range map[int]bool{100: true, beyond: false} {
			if got := strings.Contains(rendered(t, tc.text(lines)), tc.in); got != within {
				t.Errorf("%s, %d lines: the end is within: %t, want %t", name, lines, got, within)
			}
		}
	}
}

// Each row that makes a table is known as a delimiter row, in every spelling of GFM, so its cells count.
func TestEachDelimiterRowIsKnown(t *testing.T) {
	tables := 0
	for _, cell := range []string{"-", "---", ":-", "-:", ":-:", ":---:", " - ", "\t:-\t", " :-: "} {
		for _, begin := range []string{"", "|", "  |", "   | "} {
			for _, end := range []string{"", "|", "| ", "|\t", " \t", "|\r"} {
				row := begin + cell + "|" + cell + end
				if !strings.Contains(rendered(t, "a|b\n"+row+"\nc|d\n"), "<table>") {
					continue // a list, or code
				}
				tables++
				if !isTableDelimiterRow([]byte(row + "\n")) {
					t.Errorf("%q is not known", row)
				}
			}
		}
	}
	if tables < 150 {
		t.Errorf("only %d rows made a table", tables)
	}
}

// unformatted returns the number of parts of a page that exceed the budget.
func unformatted(t *testing.T, source string) int {
	t.Helper()
	return strings.Count(rendered(t, source), "<pre><code>")
}

func BenchmarkHTML(b *testing.B) {
	source := []byte(
		strings.Repeat("# Heading\n\nA *text* with [links](a.md), `code` and more words than that.\n\n- a\n- b\n\n", size/80))
	b.SetBytes(int64(len(source)))
	for b.Loop() {
		if _, err := HTML(source); err != nil {
			b.Fatal(err)
		}
	}
}

// Lists and quotes are nested up to the maximal depth. Deeper ones are text.
func TestNestingIsBounded(t *testing.T) {
	for mark, element := range map[string]string{"> ": "<blockquote>", "- ": "<ul>", "1. ": "<ol>"} {
		for depth, want := range map[int]int{
			1: 1, maxDepth - 1: maxDepth - 1, maxDepth: maxDepth, maxDepth + 1: maxDepth, 2 * maxDepth: maxDepth,
		} {
			page := rendered(t, strings.Repeat(mark, depth)+"text")
			if got := strings.Count(page, element); got != want || !strings.Contains(page, "text") {
				t.Errorf("%d times %q: %d times %s, want %d", depth, mark, got, element, want)
			}
		}
	}
}
