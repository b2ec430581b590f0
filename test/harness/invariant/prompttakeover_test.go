package invariant_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// readsLease is a read of the Lease by a replica.
func readsLease(who, verb string) step {
	return asks(who, verb, object("Lease", "leader", "l"), history.Read, 200, func(r *history.Request) { r.Key = lease })
}

// polls has a replica read the Lease so many times, once a second.
func polls(who string, times int) []step {
	var steps []step
	for range times {
		steps = append(steps, waits(900*time.Millisecond), readsLease(who, "list"))
	}
	return steps
}

func TestTakeover(t *testing.T) {
	limited := func(o *invariant.Contract) { o.Limits.Takeover = metav1.Duration{Duration: 2 * time.Second} }
	leased := func(parts ...[]step) *history.History {
		return tell(slices.Concat(append([][]step{{elects("a", "a_1")}}, parts...)...)...)
	}
	refused := changes(func(s *story) {
		for i := range s.Requests {
			if s.Requests[i].Effect == history.Read {
				s.Requests[i].Code = 403
			}
		}
	})
	do := func(steps ...step) []step { return steps }
	left := []string{"replica b read the Lease for 7s without a renewal: a_1 holds it", "its duration is 4s",
		"no replica took it in 2s"}
	rows := map[string]row{
		"Taken": {history: leased(polls("b", 6), do(elects("b", "b_1"))), want: invariant.Held,
			says: []string{"1 checked"}},
		"TakenLate":    {history: leased(polls("b", 7), do(elects("b", "b_1"))), want: invariant.Held},
		"Left":         {history: leased(polls("b", 12)), want: invariant.Broken, says: left},
		"TakenTooLate": {history: leased(polls("b", 12), do(elects("b", "b_1"))), want: invariant.Broken, says: left},
		"Renewed": {history: leased(polls("b", 3), do(elects("a", "a_1")), polls("b", 3), do(elects("a", "a_1")),
			polls("b", 3)), want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
		"ByHolder": {history: leased(polls("a", 12)), want: invariant.Inconclusive,
			says: []string{"nothing that this promise applies to"}},
		"GivenBack":      {history: leased(do(elects("a", "")), polls("b", 12)), want: invariant.Inconclusive},
		"ReadAfterwards": {history: leased(do(waits(time.Minute)), polls("b", 4)), want: invariant.Inconclusive},
		"OutOfReach":     {history: leased(polls("b", 4), do(waits(time.Minute)), polls("b", 1)), want: invariant.Held},
		"NewProcess": {history: leased(do(starts("b")), polls("b", 4), do(starts("b")), polls("b", 4)),
			want: invariant.Inconclusive},
		"Others":       {history: leased(polls("alice", 12)), want: invariant.Inconclusive},
		"RefusedReads": {history: leased(polls("b", 12), do(refused)), want: invariant.Inconclusive},
		"NoLimit": {history: leased(polls("b", 12)),
			change: func(o *invariant.Contract) { o.Limits.Takeover = metav1.Duration{} }, want: invariant.Inconclusive,
			says: []string{"no limit"}},
		"NotRecorded": {history: leased(polls("b", 12), do(without(history.Audit))), want: invariant.Inconclusive,
			says: []string{"[audit]"}},
		"WatchesAreOther": {history: leased(do(readsLease("b", "watch"), waits(time.Minute), readsLease("b", "watch"),
			waits(time.Minute), readsLease("b", "watch"))), want: invariant.Inconclusive},
	}
	for name, r := range rows {
		if r.change == nil {
			r.change = limited
			rows[name] = r
		}
	}
	check(t, invariant.PromptTakeover, rows)
}
