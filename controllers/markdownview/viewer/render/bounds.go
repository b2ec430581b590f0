// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A Markdown parser needs quadratic time for some texts: nested lists and quotes, and runs of
// brackets, stars or quotation marks in one paragraph. It needs a thousand times the memory of others:
// empty headings, quotes and lists of one byte each, and cells that only pad a row of a table. So the
// nesting is bounded, and each page has a budget for the rest. A paragraph that exceeds the budget is
// shown as unformatted code, and a heading, list or quote as a paragraph; the other text of the page is
// not affected. Usual pages need less than a tenth of the budget.
const (
	maxDepth = 32
	budget   = 200_000_000 // about nanoseconds

	// A run of n delimiters costs n squared.
	headingCost = 4_000 // with its ID
	blockCost   = 1_000 // of a list or a quote
	cellCost    = 1_000
	lineCost    = 200 // in each list or quote
)

// boundedDepth opens no list or quote deeper than maxDepth, and none that exceeds the budget; the text
// becomes a paragraph.
type boundedDepth struct{ parser.BlockParser }

func (s boundedDepth) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		switch n.Kind() {
		case ast.KindList, ast.KindBlockquote:
			depth++
		}
	}
	if depth >= maxDepth || !spend(pc, blockCost) {
		return nil, parser.NoChildren
	}
	return s.BlockParser.Open(parent, reader, pc)
}

// boundedHeading opens no heading that exceeds the budget; the text becomes a paragraph, which has
// its own guards.
type boundedHeading struct{ parser.BlockParser }

func (h boundedHeading) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, _ := reader.PeekLine()
	// Most lines are no headings, and use no budget here.
	marked := bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("#"))
	if marked && !spend(pc, square(countDelimiters(line))+headingCost) {
		return nil, parser.NoChildren
	}
	node, state := h.BlockParser.Open(parent, reader, pc)
	// A line below a paragraph may make a heading of it.
	if node != nil && !marked && !spend(pc, headingCost) {
		return nil, parser.NoChildren
	}
	return node, state
}

// Continue implements parser.BlockParser. The parser records each line in each list and quote that
// is open: a page of 262 KB with 32 lists and blank lines became 954 MiB. What exceeds the budget
// ends the list or quote.
func (s boundedDepth) Continue(node ast.Node, reader text.Reader, pc parser.Context) parser.State {
	if !spend(pc, lineCost) {
		return parser.Close
	}
	return s.BlockParser.Continue(node, reader, pc)
}

// paragraphGuard reports whether a paragraph fits into the budget of its page.
type paragraphGuard func(p *ast.Paragraph, source []byte, pc parser.Context) (fits bool)

// Transform implements parser.ParagraphTransformer. It replaces a paragraph that does not fit with
// a code block.
func (fits paragraphGuard) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	if fits(p, reader.Source(), pc) {
		return
	}
	code := ast.NewCodeBlock()
	code.SetLines(p.Lines())
	p.Parent().ReplaceChild(p.Parent(), p, code)
}

// guardLines checks a paragraph that the parser may still turn into references or a table. Each
// cell is parsed separately, so the cost counts per line. Each reference is compared with all
// references after it. The parser pads all rows of a table to the same number of cells.
func guardLines(p *ast.Paragraph, source []byte, pc parser.Context) bool {
	references, columns := 0, 0
	for i := range p.Lines().Len() {
		segment := p.Lines().At(i)
		line := segment.Value(source)
		if !spend(pc, square(countDelimiters(line))) {
			return false
		}
		if bytes.HasPrefix(line, []byte("[")) {
			references++
		}
		if isTableDelimiterRow(line) {
			columns = max(columns, bytes.Count(line, []byte("|"))+1)
		}
	}
	return spend(pc, square(references)) && spend(pc, columns*p.Lines().Len()*cellCost)
}

// isTableDelimiterRow reports whether a line may be the one below the head of a table.
func isTableDelimiterRow(line []byte) bool {
	return len(bytes.Trim(line, "|-: \t\r\n")) == 0
}

// guardText checks a paragraph that remains a paragraph.
func guardText(p *ast.Paragraph, source []byte, pc parser.Context) bool {
	n := 0
	for i := range p.Lines().Len() {
		segment := p.Lines().At(i)
		n += countDelimiters(segment.Value(source))
	}
	return spend(pc, square(n))
}

// countDelimiters counts the bytes that the inline parser examines as possible delimiters.
func countDelimiters(line []byte) int {
	n := 0
	for _, c := range line {
		switch c {
		case '[', ']', '(', ')', '<', '>', '*', '_', '~', '`', '!', '\\', '&', '"', '\'':
			n++
		}
	}
	return n
}

// leastReferences is how many bytes of destinations and titles the references of a small page may repeat.
// A larger page may repeat its own length. These are cmark's bounds, and so those of GitHub.
const leastReferences = 100_000

// boundedReferences bounds what references repeat: each use of one writes its whole destination and
// title, so a page of 43 KiB became one of 98 MiB. A use beyond the bound remains text.
type boundedReferences struct {
	parser.Context
	left int
}

// Reference implements parser.Context.
func (c *boundedReferences) Reference(label string) (parser.Reference, bool) {
	reference, found := c.Context.Reference(label)
	if !found {
		return nil, false
	}
	size := len(reference.Destination()) + len(reference.Title())
	if size > c.left {
		return nil, false
	}
	c.left -= size
	return reference, true
}

var spentKey = parser.NewContextKey()

// spend takes a cost from the budget of the page, if it is there.
func spend(pc parser.Context, cost int) bool {
	spent, _ := pc.Get(spentKey).(int)
	if spent+cost > budget {
		return false
	}
	pc.Set(spentKey, spent+cost)
	return true
}

// square cannot overflow: a page has less than a million bytes.
func square(n int) int { return n * n }
