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

// polls makes a replica read the Lease so many times, once a second.
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
		return play(slices.Concat(append([][]step{{elects("a", "a_1")}}, parts...)...)...)
	}
	refused := changes(func(s *script) {
		for i := range s.Requests {
			if s.Requests[i].Effect == history.Read {
				s.Requests[i].Code = 403
			}
		}
	})
	do := func(steps ...step) []step { return steps }
	left := []string{"replica b read the Lease for 7s without a renewal: a_1 holds it", "its duration is 4s",
		"no replica took it in 2s"}
	check(t, invariant.PromptTakeover, table{
		"Taken":        wantHeld(leased(polls("b", 6), do(elects("b", "b_1"))), "1 checked"),
		"TakenLate":    wantHeld(leased(polls("b", 7), do(elects("b", "b_1")))),
		"Left":         wantBroken(leased(polls("b", 12)), left...),
		"TakenTooLate": wantBroken(leased(polls("b", 12), do(elects("b", "b_1"))), left...),
		"Renewed": wantInconclusive(leased(polls("b", 3), do(elects("a", "a_1")), polls("b", 3), do(elects("a", "a_1")),
			polls("b", 3)), "nothing that this promise applies to"),
		"ByHolder":       wantInconclusive(leased(polls("a", 12)), "nothing that this promise applies to"),
		"GivenBack":      wantInconclusive(leased(do(elects("a", "")), polls("b", 12))),
		"ReadAfterwards": wantInconclusive(leased(do(waits(time.Minute)), polls("b", 4))),
		"OutOfReach":     wantHeld(leased(polls("b", 4), do(waits(time.Minute)), polls("b", 1))),
		"NewProcess":     wantInconclusive(leased(do(starts("b")), polls("b", 4), do(starts("b")), polls("b", 4))),
		"Others":         wantInconclusive(leased(polls("alice", 12))),
		"RefusedReads":   wantInconclusive(leased(polls("b", 12), do(refused))),
		"NoLimit": wantInconclusive(leased(polls("b", 12)), "no limit").
			under(func(o *invariant.Contract) { o.Limits.Takeover = metav1.Duration{} }),
		"WatchesAreOther": wantInconclusive(leased(do(readsLease("b", "watch"), waits(time.Minute),
			readsLease("b", "watch"), waits(time.Minute), readsLease("b", "watch")))),
	}.under(limited))
}
