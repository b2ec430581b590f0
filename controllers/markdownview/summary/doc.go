// Package summary parses a SUMMARY.md, the table of contents of a set of Markdown files in mdBook's
// format. It is pure, and its time is bounded for any text, because a webhook uses it. The webhook
// derives warnings from it, and the viewer its navigation.
//
// The format: a heading with the book's title; links before the list (prefix chapters); nested
// lists of links (chapters); further headings (part titles); rules (separators); links after the
// list (suffix chapters). A link without a destination is a draft chapter. A link is on one line.
package summary
