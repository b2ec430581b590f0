// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func TestQuiet(t *testing.T) {
	t1 := thing(ready)
	same := asks("a", "patch", t1, history.Unchanged, 200)
	unasked := asks("alice", "patch", t1, history.Unchanged, 200)
	renewal := changes(func(s *script) {
		asks("a", "update", t1, history.Unchanged, 200, func(r *history.Request) { r.Key = lease }).record(s)
	})
	series := func(before time.Duration) step {
		return changes(func(s *script) {
			writes("a", t1, func(r *history.Request) { r.Resource = events }).record(s)
			s.Events = append(s.Events, history.Event{User: "op", RevisionRange: history.At(s.version),
				Observed: s.now.Add(-before), At: s.now})
		})
	}
	noted := writes("a", t1, func(r *history.Request) { r.Resource = events })
	again := asks("a", "patch", t1, history.Unchanged, 200, func(r *history.Request) { r.Resource = events })
	check(t, invariant.Quiescence, table{
		"OnlyTheLease": wantHeld(play(writes("a", t1), rests("end"))),
		"OthersWrite":  wantHeld(play(writes("a", t1), rests("end", writes("alice", t1), writes("gc", t1)))),
		"Reads": wantHeld(play(rests("end", asks("a", "list", t1, history.Read, 200),
			asks("a", "update", t1, history.Dry, 200)))),
		"BeforeAndAfter": wantHeld(play(writes("a", t1), rests("end"), writes("a", t1))),
		"Writes": wantBroken(play(rests("end", writes("a", t1))),
			`patch of things.example.com ns/t by replica a at resourceVersion 103, answered 200, during "end"`),
		"Events":           wantBroken(play(rests("end", writes("a", t1, func(r *history.Request) { r.Resource = events })))),
		"EndOfSeries":      wantHeld(play(rests("end", series(6*time.Minute)))),
		"EndOfSeriesTwice": wantHeld(play(rests("end", series(6*time.Minute), again))),
		"RepeatedEvent":    wantBroken(play(noted, rests("end", again))),
		"EventOfBefore":    wantHeld(play(rests("end", again))),
		"RepeatOfAnother":  wantBroken(play(writes("a", t1), rests("end", series(6*time.Minute), same))),
		"EventOfSeries":    wantBroken(play(rests("end", series(0)))),
		"NoOps":            wantBroken(play(writes("a", t1), rests("end", same)), "by replica a"),
		"NoOpOfStart":      wantHeld(play(rests("end", same))),
		"NoOpsOfStart":     wantBroken(play(rests("end", same, same)), "by replica a"),
		"BeforeElection":   wantHeld(play(rests("end", writes("b", t1), writes("b", t1), holds("b")))),
		"AfterElection":    wantBroken(play(rests("end", holds("b"), writes("b", t1))), "by replica b"),
		"NoElection":       wantBroken(play(rests("end", writes("b", t1))), "by replica b"),
		"Restarted":        wantHeld(play(writes("a", t1), rests("end", starts(), holds("a"), same))),
		"AfterRestart":     wantBroken(play(starts(), writes("a", t1), rests("end", same)), "by replica a"),
		"NoOpUnelected":    wantBroken(play(rests("end", asks("b", "patch", t1, history.Unchanged, 200))), "by replica b"),
		"Refusals":         wantBroken(play(rests("end", asks("b", "patch", t1, history.Refused, 409))), "by replica b"),
		"SecondMark":       wantBroken(play(rests("first"), rests("second", writes("a", t1))), `"second"`),
		"Dead": wantInconclusive(play(writes("a", t1), rests("end"),
			changes(func(s *script) { s.Requests[2].User = "alice" })), "so the silence proves nothing"),
		"OnlyRefusedRenewals": wantInconclusive(play(rests("end"),
			changes(func(s *script) { s.Requests[1].Effect = history.Refused })), "no replica renewed"),
		"TooShort": wantInconclusive(play(rests("end")), `"end" lasted 2s, the minimum is 1m0s`).
			under(func(o *invariant.Contract) { o.Limits.Quiet.Duration = time.Minute }),
		"NeverAtRest": wantInconclusive(play(writes("a", t1)), "the history has no checkpoint"),
		"NotConverged": wantInconclusive(play(rests("end", writes("a", t1)),
			changes(func(s *script) { s.Checkpoints[0].Converged = false }))),
		"WritesWhileBusy": wantInconclusive(play(rests("end", writes("a", t1)), busy()), "the history has no checkpoint"),
		"WritesAfterBusy": wantBroken(play(rests("first", writes("a", t1)), busy(), rests("second", writes("a", t1))),
			`"second"`).lacking(`"first"`),
		"FewNoOps":              wantHeld(play(same, same, rests("end"))),
		"ManyNoOps":             wantBroken(play(same, same, same, rests("end")), "changed nothing, like 2 writes to it before"),
		"NoOpsOfTwoCheckpoints": wantHeld(play(same, same, rests("made"), same, same, rests("end"))),
		"NoOpsOfTwoReplicas":    wantHeld(play(same, same, asks("b", "patch", t1, history.Unchanged, 200), rests("end"))),
		"NoOpsOfTwoObjects": wantHeld(play(same, same, asks("a", "patch", thing(named("t", "u2")), history.Unchanged, 200),
			rests("end"))),
		"OthersNoOps":   wantHeld(play(unasked, unasked, unasked, rests("end"))),
		"ElectionNoOps": wantHeld(play(renewal, renewal, renewal, rests("end"))),
		"NoOpsUnlimited": wantHeld(play(same, same, same, rests("end"))).
			under(func(o *invariant.Contract) { o.Limits.Unchanged = 0 }),
		"FourWrites": wantHeld(play(writes("a", t1), writes("a", t1), writes("a", t1), writes("a", t1), rests("end"))),
		"FiveWrites": wantBroken(play(writes("a", t1), writes("a", t1), writes("a", t1), writes("a", t1), writes("a", t1),
			rests("end")), "write 5 for generation 1 of UID u1"),
		"FiveOfTwo": wantHeld(play(writes("a", t1), writes("a", t1), writes("a", t1), writes("alice", thing(generation(2))),
			writes("a", thing(generation(2))), writes("a", thing(generation(2))), rests("end"))),
		"ChildrenUnlimited": wantHeld(play(writes("a", part("p", "p")), writes("a", part("p", "p")),
			writes("a", part("p", "p")), writes("a", part("p", "p")), writes("a", part("p", "p")), rests("end"))),
	})
}
