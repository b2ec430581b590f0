package render

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A Markdown parser needs quadratic time for some texts: nested lists and quotes, and runs of
// brackets, stars or quotation marks in one paragraph. So the nesting is bounded, and each page has
// a budget for the rest. A paragraph that exceeds the budget is shown as unformatted code; the
// other text of the page is not affected. Usual pages need less than a hundredth of the budget.
const (
	maxDepth = 32
	budget   = 200_000_000 // squared delimiters; each costs about a nanosecond
)

// boundedDepth opens no list or quote deeper than maxDepth; the text becomes a paragraph.
type boundedDepth struct{ parser.BlockParser }

func (s boundedDepth) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		switch n.Kind() {
		case ast.KindList, ast.KindBlockquote:
			depth++
		}
	}
	if depth >= maxDepth {
		return nil, parser.NoChildren
	}
	return s.BlockParser.Open(parent, reader, pc)
}

// boundedHeading opens no heading that exceeds the budget; the text becomes a paragraph, which has
// its own guards.
type boundedHeading struct{ parser.BlockParser }

func (h boundedHeading) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	// Most lines are no headings, and use no budget here.
	if line, _ := reader.PeekLine(); bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("#")) &&
		!spend(pc, countDelimiters(line)) {
		return nil, parser.NoChildren
	}
	return h.BlockParser.Open(parent, reader, pc)
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
// references after it.
func guardLines(p *ast.Paragraph, source []byte, pc parser.Context) bool {
	size, references, columns := 0, 0, 0
	for i := range p.Lines().Len() {
		segment := p.Lines().At(i)
		line := segment.Value(source)
		if !spend(pc, countDelimiters(line)) {
			return false
		}
		if bytes.HasPrefix(line, []byte("[")) {
			references++
		}
		if isTableDelimiterRow(line) {
			columns = max(columns, bytes.Count(line, []byte("|"))+1)
		}
		size += len(line)
	}
	// The parser pads all rows of a table to the same number of cells, which can need much more
	// memory than the text.
	if 2*columns*p.Lines().Len() > size+64*columns {
		return false
	}
	return spend(pc, references)
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
	return spend(pc, n)
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

var spentKey = parser.NewContextKey()

// spend takes n squared from the budget of the page, if it is there.
func spend(pc parser.Context, n int) bool {
	spent, _ := pc.Get(spentKey).(int)
	// The first comparison keeps the square from overflowing.
	if n > budget || spent+n*n > budget {
		return false
	}
	pc.Set(spentKey, spent+n*n)
	return true
}
