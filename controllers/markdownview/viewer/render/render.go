// SPDX-License-Identifier: Apache-2.0

// Package render converts untrusted Markdown to safe HTML. The output contains no HTML of the author, no
// scripts, only web, mail and telephone links, and nothing that the browser loads from elsewhere. The
// format is CommonMark with GitHub's tables, task lists, strikethrough and bare links.
//
// The package does not bound time and memory, and malicious text can need time and memory quadratic in
// its length. The viewer's deadline for a page and the memory limit of its Pod are the bounds.
package render

import (
	"bytes"
	"regexp"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"leasehold.dev/controllers/markdownview/viewer/markdown"
)

// engine is goldmark with safe links. Without the option Unsafe, goldmark itself omits the author's
// HTML.
var engine = goldmark.New(
	goldmark.WithParserOptions(
		parser.WithInlineParsers(util.Prioritized(checkBox{extension.NewTaskCheckBoxParser()}, 0)),
		parser.WithASTTransformers(util.Prioritized(headingIDs{}, 100)),
	),
	goldmark.WithExtensions(
		extension.NewLinkify(extension.WithLinkifyURLRegexp(bareURL)), extension.Strikethrough,
		// Alignment by attribute: the Content-Security-Policy allows no inline styles.
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
	),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodeRenderer{}, 100),
		util.Prioritized(extension.NewTaskCheckBoxHTMLRenderer(), 500))),
)

// checkBox is a box of a task list, which a space follows: [x](a.md) is a link. goldmark's own parser
// takes both for a box.
type checkBox struct{ parser.InlineParser }

// Parse implements parser.InlineParser.
func (c checkBox) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if line, _ := block.PeekLine(); len(line) > 3 && !util.IsSpace(line[3]) {
		return nil
	}
	return c.InlineParser.Parse(parent, block, pc)
}

// bareURL matches a web address of any host, with or without a dot. Trailing punctuation is removed
// afterwards.
var bareURL = regexp.MustCompile(
	`^https?://(?:[\pL\pN](?:[\pL\pN._-]*[\pL\pN])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?(?:[/?#][^\s<]*)?`)

// HTML renders a page. Links to Markdown files in the same folder become links to their pages
// (PageName).
func HTML(source []byte) []byte {
	var out bytes.Buffer
	if err := engine.Convert(markdown.Normalize(source), &out); err != nil {
		panic(err) // a mistake in this package: a buffer accepts all
	}
	// Code may be wider than the page. Safari scrolls with the keyboard only what can be focused. No text of the
	// author has these characters, because goldmark escapes them.
	return bytes.ReplaceAll(out.Bytes(), []byte("<pre>"), []byte(`<pre tabindex="0">`))
}
