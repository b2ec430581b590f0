package invariant

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// BoundedEvents counts the events about each object.
var BoundedEvents = Invariant{
	Name:    "bounded-events",
	Bug:     "https://github.com/kubernetes-sigs/karpenter/issues/2071",
	Promise: "the number of events with one reason for an object is bounded",
	judge: func(b *judgement) {
		if !b.hasSource(history.Audit) {
			return
		}
		limit := b.Contract.Limits.Events
		if limit == 0 {
			b.addDoubt("the operator has no limit for events")
			return
		}
		type subject struct {
			regarding types.UID
			reason    string
		}
		counts := map[subject]int{}
		// Elections come as often as they come.
		elections := map[types.UID]bool{}
		for _, life := range b.index.Lifetimes(history.Leases) {
			elections[life.UID] = life.Key == b.Contract.Lease
		}
		for _, e := range b.History.Events {
			if !slices.Contains(b.Contract.Users, e.User) || elections[e.Regarding] {
				continue
			}
			b.checked++
			s := subject{e.Regarding, e.Reason}
			counts[s]++
			if counts[s] == limit+1 {
				b.addViolation("%s %s about UID %s at %s, recorded by replica %s, is number %d: at most %d are allowed", e.Type,
					e.Reason, e.Regarding, e.RevisionRange, e.Replica, limit+1, limit).revision(e.RevisionRange)
			}
		}
	},
}
