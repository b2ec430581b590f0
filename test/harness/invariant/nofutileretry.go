package invariant

import (
	"maps"
	"net/http"
	"slices"

	"leasehold.dev/test/harness/history"
)

// NoFutileRetry looks for writes that are refused again and again.
var NoFutileRetry = Invariant{
	Name:    "no-futile-retry",
	Bug:     "https://github.com/openshift/oadp-operator/issues/187",
	Promise: "a refused write is not repeated unchanged; a fence may refuse a replica that does not lead",
	judge: func(b *judgement) {
		if !b.hasSource(history.Audit) {
			return
		}
		limit := b.Contract.Limits.InARow
		if limit == 0 {
			b.addDoubt("the operator has no limit for consecutive refusals")
			return
		}
		type line struct {
			replica, subresource string
			key                  history.Key
		}
		refused, terms := map[line]int{}, b.History.Terms(b.Contract.Lease)
		for _, r := range byArrival(b.History.Requests) {
			// A missing permission is restored without the operator. A fence rejects a replica that
			// does not lead for as long as another one leads.
			if !b.ours(r) || !r.Write() || b.electing(r) || r.Code == http.StatusForbidden &&
				(b.denied(r) || isFenced(terms, r)) {
				continue
			}
			b.checked++
			l := line{r.Replica, r.Subresource, r.Key}
			if r.Effect != history.Refused {
				// It need not be the same replica: after a write, a refusal of the others is a new one.
				maps.DeleteFunc(refused, func(o line, _ int) bool { return o.key == l.key && o.subresource == l.subresource })
				continue
			}
			refused[l]++
			if refused[l] == limit+1 {
				b.addViolation("%s (%s): the same request was refused %d consecutive times before", r, r.Reason, limit).request(r)
			}
		}
	},
}

// byArrival are the requests in the order in which the API server received them.
func byArrival(requests []history.Request) []history.Request {
	return slices.SortedStableFunc(slices.Values(requests), func(x, y history.Request) int {
		return x.Received.Compare(y.Received)
	})
}

// isFenced reports whether a request came from a replica that certainly did not hold the Lease.
func isFenced(terms []history.Term, r history.Request) bool {
	leaders := history.HeldDuring(terms, r.RevisionRange)
	return len(leaders) > 0 && !slices.Contains(leaders, r.Replica)
}
