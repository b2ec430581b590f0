package main

import (
	"fmt"
	"slices"
	"strings"
)

// allowTrailer is the trailer of a commit message that allows findings: the beginning of
// their ID, a colon and the reason.
const allowTrailer = "Gate-Allow"

type verdict string

const (
	same    verdict = "same"
	isWorse verdict = "worse"
	better  verdict = "better"
	added   verdict = "new"
	allowed verdict = "allowed"
)

// finding is one thing that was compared.
type finding struct {
	id, base, head string
	verdict        verdict
	reason         string
}

func worse(found []finding) []finding {
	return slices.DeleteFunc(slices.Clone(found), func(f finding) bool { return f.verdict != isWorse })
}

// allow applies the trailers to findings that are worse. It returns a notice for each
// trailer that allows nothing.
func allow(found []finding, trailers []string) (notices []string) {
	for _, value := range trailers {
		id, reason, _ := strings.Cut(value, ": ")
		if id = strings.TrimSpace(id); id == "" || strings.TrimSpace(reason) == "" {
			notices = append(notices, fmt.Sprintf("`%s: %s` has no effect: write `%s: <beginning of an ID>: <reason>`.",
				allowTrailer, value, allowTrailer))
			continue
		}
		used := false
		for i := range found {
			if f := &found[i]; f.verdict == isWorse && strings.HasPrefix(f.id, id) {
				f.verdict, f.reason, used = allowed, strings.TrimSpace(reason), true
			}
		}
		if !used {
			notices = append(notices, fmt.Sprintf("`%s: %s` was not needed: nothing with that ID is worse.", allowTrailer, id))
		}
	}
	return notices
}

// render is a Markdown table of what differs, what is worse first.
func render(base string, found []finding, notices []string) string {
	var text strings.Builder
	counts := map[verdict]int{}
	for _, f := range found {
		counts[f.verdict]++
	}
	fmt.Fprintf(&text, "# Compared with %.12s\n\n%d worse, %d allowed, %d better, %d new, %d the same.\n",
		base, counts[isWorse], counts[allowed], counts[better], counts[added], counts[same])
	if len(found) > counts[same] {
		text.WriteString("\n| verdict | what | base | head | reason |\n|---|---|---|---|---|\n")
	}
	for _, v := range []verdict{isWorse, allowed, better, added} {
		for _, f := range found {
			if f.verdict == v {
				fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", f.verdict, f.id, f.base, f.head,
					strings.ReplaceAll(f.reason, "|", `\|`))
			}
		}
	}
	for _, notice := range notices {
		fmt.Fprintf(&text, "\n%s\n", notice)
	}
	return text.String()
}
