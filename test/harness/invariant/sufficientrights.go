// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"net/http"
	"slices"

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
			case r.Forbidden, r.Code == http.StatusUnauthorized:
				b.addViolation("%s: the operator lacks that right", r).request(r)
			case r.Code == http.StatusNotFound && slices.Contains([]string{"list", "watch"}, r.Verb):
				b.addViolation("%s: the resource does not exist", r).request(r)
			}
		}
	},
}
