package invariant

import (
	"slices"

	"leasehold.dev/test/harness/history"
)

// Preconditions looks at what deletions and updates demand of the object.
var Preconditions = Invariant{
	ID: "O6", Name: "preconditions",
	inHostile: true,
	Promise:   "the operator deletes an object by its UID and replaces one at the version that it has seen, never by name alone",
	judge: func(b *judgement) {
		if !b.hasSource(history.Audit) {
			return
		}
		owned := b.Operator.Resources()
		for _, r := range b.History.Requests {
			if !b.ours(r) || !r.Write() || !slices.Contains(owned, r.Resource) {
				continue
			}
			switch r.Verb {
			case "deletecollection":
				b.checked++
				b.addViolation("%s: a collection is whatever is in it by then", r).request(r)
			case "delete", "update":
				b.checked++
				switch {
				case !r.Body:
					b.addDoubt("%s: what it demanded was not recorded", r)
				case r.NeedsVersion != "", r.Verb == "delete" && r.NeedsUID != "":
				case r.Verb == "delete":
					b.addViolation("%s: it demanded neither a UID nor a resourceVersion, so whatever had that name was deleted",
						r).request(r)
				default:
					b.addViolation("%s: it demanded no resourceVersion, so whatever others had written was replaced", r).request(r)
				}
			}
		}
	},
}
