// SPDX-License-Identifier: Apache-2.0

// Package markdown contains the rules that the admission webhook and the viewer must apply in the same
// way: which files a MarkdownView may contain, which file a link leads to, and where the text of a file
// begins.
package markdown

import (
	"bytes"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// SummaryName is the name of the table of contents of a set of Markdown files, in mdBook's format:
// a heading with the book's title; links before the list; nested lists of links; further headings
// (part titles); rules (separators); links after the list. A link without a destination is a draft.
const SummaryName = "SUMMARY.md"

// fileName matches what may be a key of a ConfigMap, a file and a page.
var fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}\.md$`)

// IsFileName reports whether a name is valid for a Markdown file of the set.
func IsFileName(name string) bool { return fileName.MatchString(name) }

// LocalFile returns the relative path of the Markdown file that a link leads to, without fragment
// and query and cleaned: "./a.md#b" leads to "a.md". It returns "" if it leads to none.
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

// frontMatter is a block of YAML before the text of a page, which is for other programs: keys, each with
// a value, a list or a comment. As Markdown it would be a line and a heading.
var frontMatter = regexp.MustCompile(`^---[ \t]*\n(?:(?:[A-Za-z_][\w-]*:.*|[ \t#-].*|)\n)+?---[ \t]*(?:\n|$)`)

// longestFrontMatter is the length in bytes in which the end of the front matter is searched.
const longestFrontMatter = 4096

// Normalize removes the byte order mark that some editors write, the line ends of other systems, and
// the front matter.
func Normalize(source []byte) []byte {
	source = bytes.TrimPrefix(source, []byte("\uFEFF"))
	source = bytes.ReplaceAll(source, []byte("\r\n"), []byte("\n"))
	source = bytes.ReplaceAll(source, []byte("\r"), []byte("\n"))
	return source[len(frontMatter.Find(source[:min(len(source), longestFrontMatter)])):]
}
