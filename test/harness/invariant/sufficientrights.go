package invariant

import (
	"net/http"
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// SufficientRights looks for what the operator was not allowed to do.
var SufficientRights = Invariant{
	Name:      "sufficient-rights",
	Bug:       "https://github.com/medik8s/node-healthcheck-operator/issues/428",
	inHostile: true,
	Promise:   "the shipped rights suffice",
	judge: func(b *judgement) {
		if !b.hasSource(history.Audit) {
			return
		}
		if b.Contract.Lease.Namespace == "default" {
			b.addDoubt("the operator runs in the namespace default, where missing rights in other namespaces may not show")
		}
		for _, r := range b.History.Requests {
			if !b.ours(r) {
				continue
			}
			b.checked++
			switch {
			case r.Forbidden && !b.denied(r), r.Code == http.StatusUnauthorized:
				b.addViolation("%s: the operator lacks that right", r).request(r)
			case r.Code == http.StatusNotFound && slices.Contains([]string{"list", "watch"}, r.Verb):
				b.addViolation("%s: the resource does not exist", r).request(r)
			}
		}
	},
}

// denied reports whether a request was made while a fault had taken rights away. The
// API server's authorizer learns of a right some moments after it is stored.
func (b *judgement) denied(r history.Request) bool {
	const learned = 2 * time.Second
	return slices.ContainsFunc(b.History.Faults, func(f history.FaultRecord) bool {
		return f.Denies && f.Happened > 0 && !r.Received.Before(f.Began) && !r.Received.After(f.Ended.Add(learned))
	})
}
