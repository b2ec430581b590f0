package invariant

import (
	"net/http"
	"slices"

	"leasehold.dev/test/harness/history"
)

// Rights looks for what the operator was not allowed to do.
var Rights = Invariant{
	ID: "O13", Name: "rights",
	Promise: "the rights that the operator ships with are enough, in any namespace: nothing that it asks for is forbidden or unknown",
	judge: func(b *bench) {
		if !b.needs(history.Audit) {
			return
		}
		if b.Operator.Lease.Namespace == "default" {
			b.doubt("the operator runs in the namespace default, where rights that are missing elsewhere may not show")
		}
		for _, r := range b.History.Requests {
			if !b.ours(r) {
				continue
			}
			b.checked++
			switch {
			case r.Forbidden, r.Code == http.StatusUnauthorized:
				b.broken("%s: it has no right to that", r)
			case r.Code == http.StatusNotFound && slices.Contains([]string{"list", "watch"}, r.Verb):
				b.broken("%s: there is no such resource", r)
			}
		}
	},
}
