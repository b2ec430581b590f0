// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"fmt"
	"html"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/markdownview/viewer/markdown"
)

// maxLinks bounds the warnings about links.
const maxLinks = 8

// warn returns warnings for probable mistakes that are allowed. A warning is true of what the default
// viewer shows. It reads each text once, by lines, so some mistakes have no warning.
func warn(v *v1beta1.MarkdownView) admission.Warnings {
	if v.Spec.ViewerImage != "" {
		if why := unpinned(v.Spec.ViewerImage); why != "" {
			return admission.Warnings{fmt.Sprintf(
				"viewerImage %s %s, so viewers may run different images; use a tag that does not change, or a digest",
				truncate(v.Spec.ViewerImage), why)}
		}
		return nil
	}
	warnings := warnOfLinks(v.Spec.Markdowns)
	for _, name := range slices.Sorted(maps.Keys(v.Spec.Markdowns)) {
		if line := lineOfHTML(string(v.Spec.Markdowns[name])); line > 0 {
			return append(warnings, fmt.Sprintf(
				"%s has HTML on line %d; the default viewer does not render HTML; use Markdown, or put code between backquotes",
				truncate(name), line))
		}
	}
	return warnings
}

var (
	// inlineLink matches a link whose text and destination need no parser.
	inlineLink = regexp.MustCompile(`(?:^|[^!\\\]])\[[^\[\]]*\]\(([^\s()\\&\[\]"']+)(?:\s+"[^"]*")?\)`)
	// notOnlyLinks matches a line that may have code, HTML or images.
	notOnlyLinks = regexp.MustCompile("[`<]|!\\[")
	// mention matches each text that may lead to a file, in a link of any form.
	mention = regexp.MustCompile(`[^\s()<>\[\]"']+\.md`)
)

// warnOfLinks returns warnings for chapters of SUMMARY.md that lead to no file, and for files that no
// chapter leads to.
func warnOfLinks(files map[string]v1beta1.MarkdownText) admission.Warnings {
	var warnings admission.Warnings
	summary, links := string(files[markdown.SummaryName]), 0
	inList, inQuote, last := false, false, 0
	for l := range lines(summary) {
		if element.MatchString(l.text) {
			break // what follows may be HTML, too
		}
		isItem := listItem.MatchString(l.text) && strings.Trim(l.text, "-*+_ ") != ""
		inList = isItem && (inList && l.number == last+1 || l.indent < 4)
		last = l.number
		inQuote = l.text != "" && (inQuote || strings.HasPrefix(l.text, ">"))
		if inQuote || l.indent >= 4 && !inList || strings.HasPrefix(l.text, "#") || notOnlyLinks.MatchString(l.text) {
			continue
		}
		for _, match := range inlineLink.FindAllStringSubmatch(l.text, -1) {
			if _, ok := files[markdown.LocalFile(match[1])]; ok || strings.Contains(match[1], ":") {
				continue
			}
			if links++; links <= maxLinks {
				warnings = append(warnings, fmt.Sprintf("SUMMARY.md links to %s on line %d, but this "+
					"MarkdownView has no such file, so the chapter has no page", truncate(match[1]), l.number))
			}
		}
	}
	if links > maxLinks {
		warnings = append(warnings, fmt.Sprintf("SUMMARY.md has %d more links to files that do not exist", links-maxLinks))
	}
	named := map[string]bool{markdown.SummaryName: true}
	for _, text := range mention.FindAllString(html.UnescapeString(strings.ReplaceAll(summary, `\`, "")), -1) {
		named[markdown.LocalFile(text)] = true
	}
	unnamed := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return named[name] })
	if len(unnamed) > 0 {
		warnings = append(warnings, fmt.Sprintf("SUMMARY.md does not name %s; number of files that it does not name, "+
			"including this one: %d",
			truncate(unnamed[0]), len(unnamed)))
	}
	return warnings
}

// element matches an HTML element by the grammar of CommonMark, or the beginning of a block of HTML. No code,
// escape or destination of a link may come before it.
var element = regexp.MustCompile("^(?:(?:[^`\\\\]|\\\\.)*[^`\\\\(])?<(?:/[A-Za-z][A-Za-z0-9-]*\\s*|" +
	"[A-Za-z][A-Za-z0-9-]*(?:\\s+[A-Za-z_:][\\w.:-]*(?:\\s*=\\s*(?:[^\\s\"'=<>`]+|'[^']*'|\"[^\"]*\"))?)*\\s*/?)>" +
	"|^(?i)</?(?:blockquote|center|details|div|dl|h[1-6]|iframe|li|ol|p|section|summary|table|td|th|tr|ul)(?:\\s|$)")

// lineOfHTML returns the first line that has an element and is no code; 0 if there is none.
func lineOfHTML(text string) int {
	former := ""
	for l := range lines(text) {
		// The line below a label may be an address.
		if l.indent < 4 && element.MatchString(l.text) && !strings.HasSuffix(former, "]:") {
			return l.number
		}
		former = l.text
	}
	return 0
}

// line is a line of a text that is neither in a fence nor in a comment.
type line struct {
	number, indent int    // the indentation in columns
	text           string // without the indentation
}

var (
	listItem = regexp.MustCompile(`^(?:[-+*]|[0-9]{1,9}[.)])(?:\s|$)`)
	// opening matches the beginning of a fence, in a quote or a list item too.
	opening = regexp.MustCompile("^(?:>\\s?|(?:[-+*]|[0-9]{1,9}[.)])\\s+)*(?:(`{3,})[^`]*|(~{3,}).*)$")
)

// lines returns the lines of a text that are neither in a fence nor in a comment. A fence ends, as in GitHub's
// format, with a line of at least as many of its characters, and nothing else. The lines end at a fence or a comment
// that is indented or in a quote or a list: only a parser knows where it ends.
func lines(text string) iter.Seq[line] {
	return func(yield func(line) bool) {
		body := string(markdown.Normalize([]byte(text)))
		l, fence, inComment := line{number: max(strings.Count(text, "\n")-strings.Count(body, "\n"), 0)}, "", false
		for raw := range strings.Lines(strings.ReplaceAll(body, "\t", "    ")) {
			l.number++
			l.text, l.indent = strings.TrimSpace(raw), len(raw)-len(strings.TrimLeft(raw, " "))
			mark := opening.FindStringSubmatch(l.text)
			_, comment, open := strings.Cut(l.text, "<!--")
			open = open && !strings.Contains(comment, "-->")
			switch {
			case inComment:
				inComment = !strings.Contains(raw, "-->")
			case fence != "":
				if l.indent < 4 && strings.HasPrefix(l.text, fence) && strings.Trim(l.text, fence[:1]) == "" {
					fence = ""
				}
			case len(mark) > 2 && strings.HasPrefix(raw, mark[1]+mark[2]):
				fence = mark[1] + mark[2]
			case strings.HasPrefix(raw, "<!--"):
				inComment = open
			case mark != nil, open, !yield(l):
				return
			}
		}
	}
}
