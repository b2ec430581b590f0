// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// headingIDs gives each heading an ID from the text that is shown, as GitHub and mdBook do: "Über
// _uns_!" is "über-uns", and the second one is "über-uns-1". Inlines are parsed before, so markup,
// entities, links and emphasis give only their text.
type headingIDs struct{}

// Transform implements parser.ASTTransformer.
func (headingIDs) Transform(page *ast.Document, reader text.Reader, _ parser.Context) {
	used, next := map[string]bool{}, map[string]int{} // next has the suffix to try
	// The function never returns an error, so neither does Walk.
	_ = ast.Walk(page, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Kind() != ast.KindHeading {
			return ast.WalkContinue, nil
		}
		base := slug(plainText(n, reader.Source(), false))
		id := base
		for used[id] {
			next[base]++
			id = base + "-" + strconv.Itoa(next[base])
		}
		used[id] = true
		n.SetAttributeString("id", []byte(id))
		return ast.WalkContinue, nil
	})
	// GitHub finds a heading whatever the case of the link.
	_ = ast.Walk(page, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering && bytes.HasPrefix(link.Destination, []byte("#")) {
			if lower := strings.ToLower(string(link.Destination)); used[lower[1:]] && !used[string(link.Destination[1:])] {
				link.Destination = []byte(lower)
			}
		}
		return ast.WalkContinue, nil
	})
}

// slug returns the ID for a text. It keeps letters, marks, numbers, '-' and '_' of any script. Only
// a plain space becomes '-'.
func slug(heading string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.Pc), r == '-':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(strings.ReplaceAll(heading, "\uFFFD", "")))
	return cmp.Or(id, "heading")
}

// plainText returns the text of a node without formatting, and without images unless these are
// wanted.
func plainText(node ast.Node, source []byte, images bool) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			if n != node && !images {
				return ast.WalkSkipChildren, nil
			}
		case *ast.AutoLink:
			b.Write(n.Label(source))
		case *ast.Text:
			value := n.Value(source)
			if !n.IsRaw() {
				value = unescape(value)
			}
			b.Write(value)
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}
