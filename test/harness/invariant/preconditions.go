// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"

	"leasehold.dev/test/harness/history"
)

// Preconditions looks at what deletions and updates demand of the object.
var Preconditions = Invariant{
	Name:      "preconditions",
	Bug:       "https://github.com/rabbitmq/cluster-operator/issues/648",
	inHostile: true,
	Promise:   "deletions have a UID precondition and updates the version that the operator read",
	needs:     []history.Source{history.Audit},
	judge: func(b *judgement) {
		judged := slices.Concat(b.Contract.Resources(), b.Contract.Watched)
		for _, r := range b.History.Requests {
			if !b.ours(r) || !r.Write() || !slices.Contains(judged, r.Resource) {
				continue
			}
			switch r.Verb {
			case "deletecollection":
				b.checked++
				b.addViolation("%s: it deletes all objects of the collection, also those that it has never read", r).request(r)
			case "delete", "update":
				b.checked++
				switch {
				case !r.Body:
					b.addDoubt("%s: its preconditions were not recorded", r)
				case r.NeedsVersion != "", r.Verb == "delete" && r.NeedsUID != "":
				case r.Verb == "delete":
					b.addViolation("%s: it has no precondition, neither UID nor resourceVersion, so it deletes any object of that name",
						r).request(r)
				default:
					b.addViolation("%s: it has no resourceVersion, so it overwrites what other clients wrote", r).request(r)
				}
			}
		}
	},
}
