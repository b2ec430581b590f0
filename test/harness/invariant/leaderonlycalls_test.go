// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// waits lets time pass in which nothing happens.
func waits(d time.Duration) step {
	return changes(func(s *script) { s.now = s.now.Add(d) })
}

// starts begins a process of replica a.
func starts() step {
	return changes(func(s *script) {
		s.tick()
		s.Replicas = append(s.Replicas, history.Process{Name: "a", Started: s.now})
	})
}

// elects gives the Lease of 4 seconds to a process of a replica, by its whole identity.
func elects(who, identity string) step {
	return writes(who, leader(map[string]any{"holderIdentity": identity, "leaseDurationSeconds": int64(4)}))
}

func TestExternalByLeader(t *testing.T) {
	by := func(who string) step {
		return calls(history.Get, "bucket", "u1", history.Done, func(c *history.Call) { c.Replica = who })
	}
	long := waits(time.Second)
	unanswered := calls(history.Create, "bucket", "u1", history.Failed)
	byLateHolder := []string{"get of external bucket for UID u1 by replica a", "at that time replica b held the Lease"}
	// late is a call of a leader that a fault held until another one led.
	late := func(until float64) *history.History {
		return play(holds("b"), long, by("a"), delayed("a", 0, until))
	}
	fenced := func(c *invariant.Contract) { c.Fenced = true }
	check(t, invariant.LeaderOnlyCalls, table{
		"Late":           wantHeld(late(9)),
		"TooLate":        wantBroken(late(1), byLateHolder...),
		"Fenced":         wantBroken(late(9), byLateHolder...).under(fenced),
		"Holder":         wantHeld(play(by("a"), holds("a"), by("a")), "2 checked"),
		"NewHolder":      wantHeld(play(holds("b"), by("b"))),
		"TakenMeanwhile": wantHeld(play(by("a"), holds("b"), changes(func(s *script) { s.Calls[0].Ended = s.now }))),
		"NeverHeld":      wantBroken(play(by("a"), by("b")), "by replica b", "at that time replica a held the Lease"),
		"Released":       wantBroken(play(holds(""), long, by("a")), "no replica held the Lease"),
		"ReleasedJustNow": wantInconclusive(play(holds(""), by("a")),
			"changed about that time, between replica a or no replica"),
		"Taken":        wantBroken(play(holds("b"), long, by("a")), byLateHolder...),
		"TakenJustNow": wantInconclusive(play(holds("b"), by("a")), "between replica a or replica b"),
		"NotYetTaken":  wantBroken(play(by("b"), holds("b")), "by replica b", "replica a held the Lease"),
		"Failed":       wantBroken(play(holds("b"), long, unanswered), "create of external bucket"),

		"RestartedAndNotElected": wantBroken(play(starts(), elects("a", "a_2"), starts(), by("a")),
			"an earlier process of that replica"),
		"RestartedAndElected": wantHeld(play(starts(), elects("a", "a_2"), starts(), elects("a", "a_3"), by("a"))),
		"RestartedLater":      wantHeld(play(starts(), elects("a", "a_2"), by("a"), starts())),
		"Renewed": wantHeld(play(elects("a", "a_1"), waits(3*time.Second), elects("a", "a_1"), waits(3*time.Second),
			by("a"))),
		"NearExpiry": wantHeld(play(elects("a", "a_1"), waits(4*time.Second), by("a"))),
		"Expired": wantBroken(play(elects("a", "a_1"), waits(5*time.Second), by("a")),
			"the last renewal of the Lease was at resourceVersion 102", "its duration is 4s"),
		"LastsUnknown": wantHeld(play(waits(time.Hour), by("a"))),

		"Unknown": wantInconclusive(play(by("")), "is unknown"),
		"BeforeTheRecord": wantInconclusive(play(by("a"), changes(func(s *script) { s.Calls[0].Began = second(-9) })),
			"at that time was not recorded"),
		"Nothing": wantInconclusive(play(writes("a", thing())), "nothing that this promise applies to"),
		"NoLease": wantInconclusive(play(by("a"), changes(func(s *script) { s.Versions = nil })), "Lease system/leader"),
	})
}
