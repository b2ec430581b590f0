package render

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A Markdown parser takes quadratic time for some text: lists and quotes within
// each other, and runs of brackets, stars, quotes within one paragraph. Nesting
// is therefore bounded, and each page has a budget for the rest. What would go
// beyond it is shown as it was written, like code; all other text of the page is
// not affected. Pages that people write use less than a hundredth of it.
const (
	maxDepth = 32
	budget   = 200_000_000 // squared marks; about a nanosecond each
)

// shallow opens no list or quote beyond maxDepth; its text is a paragraph then.
type shallow struct{ parser.BlockParser }

func (s shallow) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
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

// cheapHeading opens no heading that the budget has no room for; its text is a
// paragraph then, which has its own guards.
type cheapHeading struct{ parser.BlockParser }

func (h cheapHeading) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	// Most lines are no headings, and cost nothing here.
	if line, _ := reader.PeekLine(); bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("#")) && !spend(pc, marks(line)) {
		return nil, parser.NoChildren
	}
	return h.BlockParser.Open(parent, reader, pc)
}

// transformer is a function as a goldmark transformer of paragraphs.
type transformer func(p *ast.Paragraph, source []byte, pc parser.Context) (fits bool)

// Transform shows a paragraph as it was written when it does not fit.
func (fits transformer) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	if fits(p, reader.Source(), pc) {
		return
	}
	code := ast.NewCodeBlock()
	code.SetLines(p.Lines())
	p.Parent().ReplaceChild(p.Parent(), p, code)
}

// guardLines looks at a paragraph that may yet become references or a table. Cells
// are parsed each by itself, so what counts is the line; references are
// looked up against all that follow.
func guardLines(p *ast.Paragraph, source []byte, pc parser.Context) bool {
	size, references, columns := 0, 0, 0
	for i := range p.Lines().Len() {
		segment := p.Lines().At(i)
		line := segment.Value(source)
		if !spend(pc, marks(line)) {
			return false
		}
		if bytes.HasPrefix(line, []byte("[")) {
			references++
		}
		if delimiters(line) {
			columns = max(columns, bytes.Count(line, []byte("|"))+1)
		}
		size += len(line)
	}
	// A table that is padded to more cells than its text has room for.
	if 2*columns*p.Lines().Len() > size+64*columns {
		return false
	}
	return spend(pc, references)
}

// delimiters says whether a line may be the one below the head of a table.
func delimiters(line []byte) bool {
	return len(bytes.Trim(line, "|-: \t\r\n")) == 0
}

// guardText looks at a paragraph that stays one.
func guardText(p *ast.Paragraph, source []byte, pc parser.Context) bool {
	n := 0
	for i := range p.Lines().Len() {
		segment := p.Lines().At(i)
		n += marks(segment.Value(source))
	}
	return spend(pc, n)
}

// marks counts the bytes of a text that may mean something.
func marks(line []byte) int {
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
