package render

import (
	"bytes"
	"html"
	"net/url"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"leasehold.dev/controllers/markdownview/summary"
)

// PageName is the name of the page of a Markdown file: page.md is shown as
// page.html, as mdBook does.
func PageName(file string) string {
	return strings.TrimSuffix(file, ".md") + ".html"
}

// nodes renders what we do differently from goldmark.
type nodes struct{}

// RegisterFuncs tells goldmark of it.
func (nodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindLink, link)
	r.Register(ast.KindAutoLink, autoLink)
	r.Register(ast.KindImage, image)
	r.Register(extensionast.KindTable, table)
}

func link(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.Link)
	href, ok := address(resolved(n.Destination))
	if !ok {
		return ast.WalkContinue, nil // its text stays
	}
	if entering {
		open(w, href, string(resolved(n.Title)))
	} else {
		_, _ = w.WriteString("</a>")
	}
	return ast.WalkContinue, nil
}

func autoLink(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.AutoLink)
	destination := string(n.URL(source))
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(destination), "mailto:") {
		destination = "mailto:" + destination
	}
	href, ok := address([]byte(destination))
	if ok {
		open(w, href, "")
	}
	_, _ = w.WriteString(html.EscapeString(string(n.Label(source))))
	if ok {
		_, _ = w.WriteString("</a>")
	}
	return ast.WalkContinue, nil
}

// inlineImage is an image that comes with the page, of a kind that cannot hold a
// script.
var inlineImage = regexp.MustCompile(`^data:image/(?:png|gif|jpeg|webp);base64,[A-Za-z0-9+/]+={0,2}$`)

// image shows an image that comes with the page. For any other the reader's
// browser would have to tell its host who reads what; a link leaves that to the
// reader.
func image(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.Image)
	destination := resolved(n.Destination)
	alt := html.EscapeString(plain(n, source))
	if inlineImage.Match(destination) {
		_, _ = w.WriteString(`<img src="` + html.EscapeString(string(destination)) + `" alt="` + alt + `">`)
		return ast.WalkSkipChildren, nil
	}
	href, ok := address(destination)
	ok = ok && !within(n, ast.KindLink)
	if ok {
		if alt == "" {
			alt = html.EscapeString(href)
		}
		open(w, href, string(resolved(n.Title)))
	}
	_, _ = w.WriteString(alt)
	if ok {
		_, _ = w.WriteString("</a>")
	}
	return ast.WalkSkipChildren, nil
}

// table lets a wide table scroll by itself, not the page with it.
func table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"scroll\">\n<table>\n")
	} else {
		_, _ = w.WriteString("</table>\n</div>\n")
	}
	return ast.WalkContinue, nil
}

func open(w util.BufWriter, href, title string) {
	_, _ = w.WriteString(`<a href="` + html.EscapeString(href) + `"`)
	if title != "" {
		_, _ = w.WriteString(` title="` + html.EscapeString(title) + `"`)
	}
	_ = w.WriteByte('>')
}

// resolved is text of a link as it is meant: without escapes and entities.
// Nothing may be decoded after it: what was judged is what is written.
func resolved(s []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(bytes.Clone(s))))
}

// address returns the href for a destination, or not when it leads to anything
// but a page, a web site, a mailbox or a telephone.
func address(destination []byte) (string, bool) {
	s := strings.ToValidUTF8(string(destination), "\uFFFD")
	u, err := url.Parse(s)
	if err != nil {
		return "", false
	}
	switch strings.ToLower(u.Scheme) {
	case "", "http", "https", "mailto", "tel":
	default:
		return "", false
	}
	if file := summary.LocalFile(s); summary.IsFileName(file) {
		page := url.URL{Path: PageName(file), Fragment: u.Fragment, RawFragment: u.RawFragment}
		return page.String(), true
	}
	return u.String(), true
}

// plain is the text of a node without its marks.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	// Walk fails only when its function does, and this one does not.
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(resolved(t.Value(source)))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

func within(node ast.Node, kind ast.NodeKind) bool {
	for n := node.Parent(); n != nil; n = n.Parent() {
		if n.Kind() == kind {
			return true
		}
	}
	return false
}
