// SPDX-License-Identifier: Apache-2.0

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

	"leasehold.dev/controllers/markdownview/viewer/markdown"
)

// PageName returns the path of the page of a Markdown file: page.md is served as page.html, as in
// mdBook.
func PageName(file string) string {
	return strings.TrimSuffix(file, ".md") + ".html"
}

// nodeRenderer renders the nodes that need other HTML than goldmark's.
type nodeRenderer struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (nodeRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindLink, link)
	r.Register(ast.KindAutoLink, autoLink)
	r.Register(ast.KindImage, image)
	r.Register(extensionast.KindTable, table)
}

func link(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.Link)
	href, ok := sanitizeURL(unescape(n.Destination))
	if !ok {
		return ast.WalkContinue, nil // only the text is rendered
	}
	if entering {
		writeAnchor(w, href, string(unescape(n.Title)))
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
	href, ok := sanitizeURL([]byte(destination))
	writeText(w, href, ok, "", html.EscapeString(string(n.Label(source))))
	return ast.WalkContinue, nil
}

// inlineImage matches images inside the page, of types that cannot contain a script.
var inlineImage = regexp.MustCompile(`^data:image/(?:png|gif|jpeg|webp);base64,[A-Za-z0-9+/]+={0,2}$`)

// image renders an image inside the page. Any other image becomes a link: loading it would disclose
// the reader's address to its host.
func image(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.Image)
	destination := unescape(n.Destination)
	alt := html.EscapeString(plainText(n, source, true))
	if inlineImage.Match(destination) {
		_, _ = w.WriteString(`<img src="` + html.EscapeString(string(destination)) + `" alt="` + alt + `">`)
		return ast.WalkSkipChildren, nil
	}
	href, ok := sanitizeURL(destination)
	ok = ok && !hasAncestor(n, ast.KindLink)
	if ok && alt == "" {
		alt = html.EscapeString(href)
	}
	writeText(w, href, ok, string(unescape(n.Title)), alt)
	return ast.WalkSkipChildren, nil
}

// table makes a wide table scroll separately from the page.
func table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"scroll\" tabindex=\"0\">\n<table>\n")
	} else {
		_, _ = w.WriteString("</table>\n</div>\n")
	}
	return ast.WalkContinue, nil
}

func writeAnchor(w util.BufWriter, href, title string) {
	_, _ = w.WriteString(`<a href="` + html.EscapeString(href) + `"`)
	if title != "" {
		_, _ = w.WriteString(` title="` + html.EscapeString(title) + `"`)
	}
	_ = w.WriteByte('>')
}

// writeText writes an escaped text, as a link if the address can be one.
func writeText(w util.BufWriter, href string, ok bool, title, text string) {
	if ok {
		writeAnchor(w, href, title)
		text += "</a>"
	}
	_, _ = w.WriteString(text)
}

// unescape resolves the escapes and entities of a destination or a title. The result must not be
// decoded again, because sanitizeURL has checked exactly this text.
func unescape(s []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(bytes.Clone(s))))
}

// escaped matches an escape whose '%' was escaped.
var escaped = regexp.MustCompile(`%25([0-9A-Fa-f]{2})`)

// sanitizeURL returns the href for a destination. It returns false unless the destination is a
// page, a web site, a mail address or a telephone number.
func sanitizeURL(destination []byte) (string, bool) {
	s := strings.ToValidUTF8(string(destination), "\uFFFD")
	// Browsers accept a '%' that begins no escape.
	s = escaped.ReplaceAllString(strings.ReplaceAll(s, "%", "%25"), "%$1")
	u, err := url.Parse(s)
	if err != nil {
		return "", false
	}
	switch strings.ToLower(u.Scheme) {
	case "", "http", "https", "mailto", "tel":
	default:
		return "", false
	}
	if file := markdown.LocalFile(s); markdown.IsFileName(file) {
		page := url.URL{Path: PageName(file), Fragment: u.Fragment, RawFragment: u.RawFragment}
		return page.String(), true
	}
	return u.String(), true
}

func hasAncestor(node ast.Node, kind ast.NodeKind) bool {
	for n := node.Parent(); n != nil; n = n.Parent() {
		if n.Kind() == kind {
			return true
		}
	}
	return false
}
