// Package render converts untrusted Markdown to safe HTML, in bounded time. The output has no HTML
// of the author, no scripts, only web, mail and telephone links, and nothing that the browser loads
// from elsewhere. The format is CommonMark with GitHub's tables, task lists, strikethrough and bare
// links.
package render

import (
	"bytes"
	"fmt"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// markdown is goldmark with bounded parsers and safe links. Without the option Unsafe, goldmark
// itself omits the author's HTML.
var markdown = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(boundedHeading{parser.NewSetextHeadingParser(parser.WithAutoHeadingID())}, 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(boundedDepth{parser.NewListParser()}, 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(boundedHeading{parser.NewATXHeadingParser(parser.WithAutoHeadingID())}, 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(boundedDepth{parser.NewBlockquoteParser()}, 800),
			util.Prioritized(parser.NewHTMLBlockParser(), 900),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		// One guard runs before the transformers of references (100) and tables (200), the other
		// one after them.
		parser.WithParagraphTransformers(
			util.Prioritized(paragraphGuard(guardLines), 0),
			util.Prioritized(paragraphGuard(guardText), 1000),
		),
	)),
	goldmark.WithExtensions(
		extension.Linkify, extension.Strikethrough, extension.TaskList,
		// Alignment by attribute: the Content-Security-Policy allows no inline styles.
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
	),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodeRenderer{}, 100))),
)

// HTML renders a page. Links to Markdown files in the same folder become links to their pages
// (PageName). reserved are element IDs of the surrounding page, which headings do not get.
func HTML(source []byte, reserved ...string) ([]byte, error) {
	var out bytes.Buffer
	context := &boundedReferences{parser.NewContext(parser.WithIDs(newIDs(reserved))), max(len(source), leastReferences)}
	if err := markdown.Convert(source, &out, parser.WithContext(context)); err != nil {
		return nil, fmt.Errorf("rendering Markdown: %w", err)
	}
	return out.Bytes(), nil
}
