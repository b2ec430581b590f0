package summary

import (
	"bytes"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// FileName is the name of the table of contents.
const FileName = "SUMMARY.md"

// The limits of a SUMMARY.md. Markdown parsers need quadratic time for some texts (deep nesting,
// runs of brackets and stars), so the file and its lines are bounded. 128 files with the longest
// names and titles fit.
const (
	MaxBytes     = 64 << 10 // of the file; later lines are ignored
	MaxLineBytes = 512      // of a line; a longer line is read as an empty one
)

// Kind is the kind of an entry.
type Kind int

// The kinds of entries.
const (
	Chapter   Kind = iota // a link, or a draft if it has no file
	Part                  // a heading above the chapters that follow
	Separator             // a rule between chapters
)

// Entry is one line of the table of contents.
type Entry struct {
	Kind  Kind
	Title string // as plain text; "" for a Separator
	// File is the relative path of the Markdown file that a chapter links to, without fragment and
	// query and cleaned: "./a.md#b" is "a.md". It is "" for a draft and for other destinations: web
	// sites, absolute paths, other types of files. It may be a path outside the flat set
	// ("sub/a.md", "../a.md"); such a file is never in the set.
	File  string
	Depth int // of a chapter: 0 at the top, 1 in a list within a list, ...
}

// Summary is a table of contents.
type Summary struct {
	// Title is the first heading if nothing precedes it; "" otherwise.
	Title   string
	Entries []Entry // in the order of the text
	// Truncated is true if text beyond MaxBytes or MaxLineBytes was ignored.
	Truncated bool
}

// Blocks are parsed first, in the whole text, and then links, line by line. Both need linear time
// except for nesting, which MaxLineBytes bounds. Quotes, indented code, references and underlined
// headings are not part of the format.
var (
	blocks = parser.NewParser(parser.WithBlockParsers(
		util.Prioritized(parser.NewThematicBreakParser(), 200),
		util.Prioritized(parser.NewListParser(), 300),
		util.Prioritized(parser.NewListItemParser(), 400),
		util.Prioritized(parser.NewATXHeadingParser(), 600),
		util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
		util.Prioritized(parser.NewHTMLBlockParser(), 900),
		util.Prioritized(parser.NewParagraphParser(), 1000),
	))
	inlines = parser.NewParser(
		parser.WithBlockParsers(util.Prioritized(parser.NewParagraphParser(), 1000)),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
	)
)

// byteOrderMark is the prefix that some editors write.
var byteOrderMark = []byte("\uFEFF")

// Parse parses a SUMMARY.md. No text is an error: what is not part of the format is ignored.
func Parse(source []byte) Summary {
	var s Summary
	source, s.Truncated = truncate(bytes.TrimPrefix(source, byteOrderMark))
	visit(&s, source, blocks.Parse(text.NewReader(source)), -1)
	return s
}

// truncate returns the source without the parts that exceed a limit, and whether there are any.
func truncate(source []byte) (kept []byte, truncated bool) {
	if len(source) > MaxBytes {
		end := bytes.LastIndexByte(source[:MaxBytes], '\n') + 1
		source, truncated = source[:end], true
	}
	kept = make([]byte, 0, len(source))
	for line := range bytes.Lines(source) {
		if len(line) > MaxLineBytes {
			line, truncated = []byte("\n"), true
		}
		kept = append(kept, line...)
	}
	return kept, truncated
}

// visit adds the entries of a node and its children. lists is the number of enclosing lists minus
// one.
func visit(s *Summary, source []byte, node ast.Node, lists int) {
	switch n := node.(type) {
	case *ast.Heading:
		s.heading(n, source)
		return
	case *ast.ThematicBreak:
		s.Entries = append(s.Entries, Entry{Kind: Separator})
		return
	case *ast.Paragraph, *ast.TextBlock:
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			s.links(line.Value(source), max(lists, 0))
		}
		return
	case *ast.List:
		lists++
	}
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		visit(s, source, child, lists)
	}
}

// heading adds a part title, or sets the title of the book. It ignores headings below the first
// level.
func (s *Summary) heading(h *ast.Heading, source []byte) {
	if h.Level != 1 || h.Lines().Len() == 0 {
		return
	}
	line := h.Lines().At(0)
	value := bytes.TrimSpace(line.Value(source))
	title := plainText(inlines.Parse(text.NewReader(value)), value)
	switch {
	case title == "":
	case len(s.Entries) == 0 && s.Title == "":
		s.Title = title
	default:
		s.Entries = append(s.Entries, Entry{Kind: Part, Title: title})
	}
}

// links adds a chapter for each link of a line.
func (s *Summary) links(line []byte, depth int) {
	line = bytes.TrimSpace(line)
	doc := inlines.Parse(text.NewReader(line))
	// The function never returns an error, so neither does Walk.
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		link, ok := n.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		file := LocalFile(string(link.Destination))
		title := plainText(link, line)
		if title == "" {
			title = file
		}
		if title != "" {
			s.Entries = append(s.Entries, Entry{Kind: Chapter, Title: title, File: file, Depth: depth})
		}
		return ast.WalkSkipChildren, nil
	})
}

// plainText returns the text of a node without formatting.
func plainText(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			value := t.Value(source)
			if !t.IsRaw() {
				value = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
			}
			b.Write(value)
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(strings.ToValidUTF8(b.String(), "\uFFFD")), " ")
}

// LocalFile returns the relative path of the Markdown file that a link leads to, in the form of
// Entry.File; "" if it leads to none.
func LocalFile(destination string) string {
	u, err := url.Parse(destination)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" {
		return ""
	}
	if !strings.HasSuffix(u.Path, ".md") || strings.HasPrefix(u.Path, "/") {
		return ""
	}
	return path.Clean(u.Path)
}

var fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}\.md$`)

// IsFileName reports whether a name is valid for a Markdown file of the set.
func IsFileName(name string) bool {
	return fileName.MatchString(name)
}

// Problems are the differences between a SUMMARY.md and the files beside it. None of them prevents
// rendering the other files.
type Problems struct {
	// Missing are the files that SUMMARY.md links to and that do not exist, each once, in the order
	// of the links.
	Missing []string
	// Unlisted are the files that SUMMARY.md does not link to, sorted. They are not in the
	// navigation. As in mdBook, links from other pages do not count. It is empty if Truncated is
	// true, because the rest of SUMMARY.md may link to them.
	Unlisted []string
	// Truncated is true if SUMMARY.md exceeds MaxBytes or MaxLineBytes.
	Truncated bool
}

// Check compares the SUMMARY.md in files with the other files. The keys of files are names, and the
// values are contents. Without a SUMMARY.md every file is unlisted.
func Check(files map[string]string) Problems {
	s := Parse([]byte(files[FileName]))
	p := Problems{Truncated: s.Truncated}
	linked := map[string]bool{FileName: true}
	for _, e := range s.Entries {
		if e.File == "" || linked[e.File] {
			continue
		}
		linked[e.File] = true
		if _, ok := files[e.File]; !ok {
			p.Missing = append(p.Missing, e.File)
		}
	}
	if s.Truncated {
		return p
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !linked[name] {
			p.Unlisted = append(p.Unlisted, name)
		}
	}
	return p
}
