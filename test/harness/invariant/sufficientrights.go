// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"cmp"
	"net/http"
	"slices"

	"leasehold.dev/test/harness/history"
)

// persistent is the number of requests for a resource that the API server does not have, from which on they are a
// mistake: to look whether an optional API is there takes one or two, and an informer tries for as long as it runs.
const persistent = 3

// SufficientRights looks for what the operator was not allowed to do.
var SufficientRights = Invariant{
	Name:      "sufficient-rights",
	Bug:       "https://github.com/medik8s/node-healthcheck-operator/issues/428",
	inHostile: true,
	Promise:   "the shipped RBAC rules suffice",
	needs:     []history.Source{history.Audit},
	judge: func(b *judgement) {
		if b.Contract.Lease.Namespace == "default" {
			b.addDoubt("the operator runs in the namespace default, where missing rights in other namespaces may not show")
		}
		missing := map[string]int{} // by sender and the resource
		for _, r := range b.History.Requests {
			if !b.ours(r) {
				continue
			}
			b.checked++
			switch {
			case r.Forbidden, r.Code == http.StatusUnauthorized:
				b.addViolation("%s: the operator lacks that right", r).request(r)
			case r.Code == http.StatusNotFound && slices.Contains([]string{"list", "watch"}, r.Verb):
				tried := cmp.Or(r.Replica, r.User) + " " + r.Resource.String()
				if missing[tried]++; missing[tried] == persistent {
					b.addViolation("%s, for the third time: the resource does not exist", r).request(r)
				}
			}
		}
	},
}
