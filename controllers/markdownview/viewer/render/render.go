// Package render turns the Markdown of strangers into HTML that may be shown: no
// HTML of theirs, no scripts, no addresses but web and mail, nothing loaded from
// anywhere, and in bounded time. It is CommonMark with GitHub's tables, task
// lists, strikethrough and bare links.
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

// markdown is goldmark with our bounds and our links. goldmark itself leaves out
// the HTML of the text (it is not told to be unsafe).
var markdown = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(parser.WithAutoHeadingID()), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(shallow{parser.NewListParser()}, 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(cheapHeading{parser.NewATXHeadingParser(parser.WithAutoHeadingID())}, 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(shallow{parser.NewBlockquoteParser()}, 800),
			util.Prioritized(parser.NewHTMLBlockParser(), 900),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		// Before references (100) and tables (200) are looked for, and after.
		parser.WithParagraphTransformers(
			util.Prioritized(transformer(guardLines), 0),
			util.Prioritized(transformer(guardText), 1000),
		),
	)),
	goldmark.WithExtensions(
		extension.Linkify, extension.Strikethrough, extension.TaskList,
		// By attribute: a policy that allows no inline styles would drop a style.
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
	),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodes{}, 100))),
)

// HTML renders a page. Links to Markdown files beside it become links to their
// pages (PageName). reserved are ids that the page around it uses; headings get
// others.
func HTML(source []byte, reserved ...string) ([]byte, error) {
	var out bytes.Buffer
	context := parser.NewContext(parser.WithIDs(newIDs(reserved)))
	if err := markdown.Convert(source, &out, parser.WithContext(context)); err != nil {
		return nil, fmt.Errorf("rendering Markdown: %w", err)
	}
	return out.Bytes(), nil
}
