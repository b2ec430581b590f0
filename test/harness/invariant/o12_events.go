package invariant

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// EventBudget counts the events about each object.
var EventBudget = Invariant{
	ID: "O12", Name: "event budget",
	Promise: "an event tells of a change, not of each pass: a reason is told about an object only so often",
	judge: func(b *judgement) {
		if !b.hasSource(history.Audit) {
			return
		}
		limit := b.Operator.Limits.Events
		if limit == 0 {
			b.addDoubt("the operator has no limit for events")
			return
		}
		type subject struct {
			regarding types.UID
			reason    string
		}
		told := map[subject]int{}
		// Elections come as often as they come.
		elections := map[types.UID]bool{}
		for _, life := range b.index.Lifetimes(history.Leases) {
			elections[life.UID] = life.Key == b.Operator.Lease
		}
		for _, e := range b.History.Events {
			if !slices.Contains(b.Operator.Users, e.User) || elections[e.Regarding] {
				continue
			}
			b.checked++
			s := subject{e.Regarding, e.Reason}
			told[s]++
			if told[s] == limit+1 {
				b.addViolation("%s %s about UID %s at %s, told by replica %s, for the %dth time: at most %d may be", e.Type,
					e.Reason, e.Regarding, e.RevisionRange, e.Replica, limit+1, limit).revision(e.RevisionRange)
			}
		}
	},
}
