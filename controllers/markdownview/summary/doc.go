// Package summary reads a SUMMARY.md, the table of contents of a set of Markdown
// files in mdBook's format. It is pure and bounded: whatever the text, it never
// takes longer than a webhook may. The webhook warns by it, the viewer builds
// its navigation from it.
//
// The format: a heading with the book's title; links before the list (prefix
// chapters); nested lists of links (chapters); further headings (part titles);
// rules (separators); links after the list (suffix chapters). A link without a
// destination is a chapter yet to be written. A link is on one line.
package summary
