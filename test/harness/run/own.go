// SPDX-License-Identifier: Apache-2.0

package run

import (
	"regexp"
	"strings"

	"leasehold.dev/test/harness/history"
)

// isOwn returns a filter for the texts that name an object of this run: they contain a name that the run made up, or
// the name of an object that its users created, as a whole word, if the run made up neither its name nor its namespace.
func (ex *execution) isOwn(h *history.History) func(text string) bool {
	normal := h.Normalizer()
	var fixed []string
	for _, ref := range ex.created {
		if path := ref.Namespace + "/" + ref.Name; normal.Replace(path) == path {
			fixed = append(fixed, regexp.QuoteMeta(ref.Name))
		}
	}
	word := regexp.MustCompile(`(^|[^a-z0-9])(` + strings.Join(fixed, "|") + `)($|[^a-z0-9])`)
	return func(text string) bool {
		return normal.Replace(text) != text || len(fixed) > 0 && word.MatchString(text)
	}
}
