// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"leasehold.dev/controllers/markdownview/viewer/markdown"
)

// Kind is the kind of an entry. "" is a chapter: a link, or a draft if it leads nowhere.
type Kind string

// The other kinds of entries.
const (
	Part      Kind = "part"      // a heading above the chapters that follow
	Separator Kind = "separator" // a rule between chapters
)

// Entry is one line of the table of contents.
type Entry struct {
	Kind  Kind
	Title string // as plain text; "" for a Separator
	// File is the Markdown file that a chapter links to; "" if it links to none.
	File string
	// Href is the address of the page of File, with the fragment of the link, or that of another web
	// site; "" for a draft.
	Href  string
	Depth int // of a chapter: 0 at the top, 1 in a list within a list, ...
}

// Summary is a table of contents.
type Summary struct {
	// Title is the first heading if nothing precedes it; "" otherwise.
	Title   string
	Entries []Entry // in the order of the text
}

// Contents reads a table of contents with the parser that renders its page. No text is an error: what
// is not part of the format is ignored.
func Contents(source []byte) Summary {
	var s Summary
	source = markdown.Normalize(source)
	s.visit(source, engine.Parser().Parse(text.NewReader(source)), -1)
	return s
}

// visit adds the entries of a node and its children. lists is the number of enclosing lists minus
// one.
func (s *Summary) visit(source []byte, node ast.Node, lists int) {
	switch n := node.(type) {
	case *ast.Heading:
		title := words(plainText(n, source, true))
		switch {
		case title == "" || n.Level > 1:
		case len(s.Entries) == 0 && s.Title == "":
			s.Title = title
		default:
			s.Entries = append(s.Entries, Entry{Kind: Part, Title: title})
		}
		return
	case *ast.ThematicBreak:
		s.Entries = append(s.Entries, Entry{Kind: Separator})
		return
	case *ast.Link:
		s.chapter(source, n, max(lists, 0))
		return
	case *ast.Blockquote, *ast.Image:
		return
	case *ast.List:
		lists++
	}
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		s.visit(source, child, lists)
	}
}

// chapter adds a chapter for a link.
func (s *Summary) chapter(source []byte, link *ast.Link, depth int) {
	e := Entry{Title: words(plainText(link, source, true)), Depth: depth}
	if href, ok := sanitizeURL(unescape(link.Destination)); ok {
		e.File = markdown.LocalFile(string(unescape(link.Destination)))
		if strings.Contains(href, ":") || markdown.IsFileName(e.File) {
			e.Href = href
		}
	}
	if e.Title = cmp.Or(e.Title, e.File); e.Title != "" {
		s.Entries = append(s.Entries, e)
	}
}

// words returns a text on one line.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }
