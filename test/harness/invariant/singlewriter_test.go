// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// undated places a deletion between so many versions before it and the next one.
func undated(before uint64) func(*history.Request) {
	return func(r *history.Request) { r.RevisionRange = history.RevisionRange{From: r.From - before, To: r.To + 1} }
}

// leases gives each version of the Lease its second, and all of them 4 seconds to last.
func leases(seconds ...float64) step {
	return changes(func(s *script) {
		for i := range s.Versions {
			v := &s.Versions[i]
			if v.Resource != history.Leases || len(seconds) == 0 {
				continue
			}
			v.At = second(seconds[0])
			seconds = seconds[1:]
			v.Object.Object["spec"].(map[string]any)["leaseDurationSeconds"] = int64(4)
		}
	})
}

func TestLeaseIsNotTaken(t *testing.T) {
	t1 := thing()
	taken := []string{"the Lease passed from a_1 to b_1 at resourceVersion 103, 1s after its renewal at " +
		"resourceVersion 102: its duration is 4s"}
	with := func(more ...step) *history.History {
		return play(holds("a"), holds("b"), writes("b", t1), leases(1, 4, 5), all(more...))
	}
	// restarts ends the process between the renewal, sent at that second, and the response at 4.
	restarts := func(sent float64) step {
		return all(lives("a", 0, 3.95), lives("a", 3.95, 0), changes(func(s *script) {
			s.Versions[1].Object.Object["spec"].(map[string]any)["renewTime"] = second(sent).Format(time.RFC3339Nano)
		}))
	}
	check(t, invariant.SingleWriter, table{
		"SentBeforeTheEnd":      wantHeld(with(restarts(3.9))),
		"SentAfterTheRestart":   wantBroken(with(restarts(3.97)), taken...),
		"SentByAClockAhead":     wantBroken(with(restarts(9)), taken...),
		"HolderEnded":           wantHeld(with(lives("a", 0, 5))),
		"HolderEndIsNoted":      wantHeld(with(lives("a", 0, 5.05))),
		"HolderEndedLater":      wantBroken(with(lives("a", 0, 5.2)), taken...),
		"HolderRuns":            wantBroken(with(lives("a", 0, 0)), taken...),
		"AnotherEnded":          wantBroken(with(lives("b", 0, 5), lives("a", 0, 0)), taken...),
		"EarlierProcessEnded":   wantBroken(with(lives("a", 0, 2), lives("a", 3, 0)), taken...),
		"LaterProcessEnded":     wantBroken(with(lives("a", 0, 0), lives("a", 5, 5)), taken...),
		"NamesThatBeginTheSame": wantBroken(with(lives("a", 0, 0), lives("", 1, 5)), taken...),
		"Expired":               wantHeld(play(holds("b"), writes("b", t1), leases(1, 5))),
		"AboutThen":             wantHeld(play(holds("b"), writes("b", t1), leases(1, 4))),
		"GivenBack":             wantHeld(play(holds(""), holds("b"), writes("b", t1), leases(1, 2, 2))),
		"Renewed":               wantHeld(play(holds("a"), writes("a", t1), leases(1, 2))),
		"Taken":                 wantBroken(play(holds("a"), holds("b"), writes("b", t1), leases(1, 4, 5)), taken...),
		"WhenUnknown": wantHeld(play(holds("a"), holds("b"), writes("b", t1), leases(1, 4, 5),
			changes(func(s *script) { s.Versions[1].At = time.Time{} }))),
		"MadeAnew": wantHeld(play(holds("b"), writes("b", t1), leases(1, 2),
			changes(func(s *script) { s.Versions[1].UID = "another" }))),
		"WasDeleted": wantHeld(play(holds("a"), holds("b"), writes("b", t1), leases(1, 2, 3),
			changes(func(s *script) { s.Versions[1].Gone = true }))),
	})
}

func TestHolderWritesTheTime(t *testing.T) {
	t1 := thing()
	// renews has replica a renew the Lease of 4 seconds with a time that is so old.
	renews := func(age time.Duration) step {
		return step{func(s *script) {
			s.now = second(20)
			writes("a", leader(map[string]any{
				"holderIdentity": "a_1", "leaseDurationSeconds": int64(4),
				"renewTime": second(20).Add(-age).Format("2006-01-02T15:04:05.000000Z07:00"),
			})).record(s)
		}}
	}
	spec := func(change func(map[string]any)) step {
		return changes(func(s *script) { change(s.Versions[1].Object.Object["spec"].(map[string]any)) })
	}
	stale := []string{"the Lease that a_1 wrote at resourceVersion 102 had been renewed 5.1s before, and its duration is 4s"}
	check(t, invariant.SingleWriter, table{
		"Fresh":      wantHeld(play(renews(0), writes("a", t1))),
		"SlowlySent": wantHeld(play(renews(3*time.Second), writes("a", t1))),
		"Ahead":      wantHeld(play(renews(-time.Hour), writes("a", t1))),
		"Stale":      wantBroken(play(renews(5*time.Second), writes("a", t1)), stale...),
		"NoTime": wantHeld(play(renews(time.Hour), writes("a", t1),
			spec(func(s map[string]any) { delete(s, "renewTime") }))),
		"NoDuration": wantHeld(play(renews(time.Hour), writes("a", t1),
			spec(func(s map[string]any) { delete(s, "leaseDurationSeconds") }))),
		"GivenBack": wantHeld(play(renews(time.Hour), holds("a"), writes("a", t1),
			spec(func(s map[string]any) { s["holderIdentity"] = "" }))),
		"OthersForged": wantHeld(play(renews(time.Hour), writes("a", t1),
			changes(func(s *script) { s.Requests[1].User = "alice" }))),
	})
}

func TestSingleWriter(t *testing.T) {
	t1 := thing()
	check(t, invariant.SingleWriter, table{
		"LeadersWrite":      wantHeld(play(writes("a", t1), holds(""), holds("b"), writes("b", t1)), "2 checked"),
		"RestartedAsLeader": wantHeld(play(holds("a"), writes("a", t1))),
		"OthersMayWrite": wantHeld(play(writes("a", t1), writes("alice", t1), writes("garbage-collector", t1)),
			"1 checked"),
		"StandbyWrites": wantBroken(play(writes("b", t1)),
			"patch of things.example.com ns/t by replica b at resourceVersion 102", "at that time replica a held the Lease"),
		"LateWrite": wantBroken(play(writes("a", t1), holds("b"), writes("a", t1)), "replica a at resourceVersion 104",
			"replica b held the Lease"),
		"AfterRelease": wantBroken(play(holds(""), writes("a", t1)), "no replica held the Lease"),
		"LateDeletion": wantBroken(play(writes("a", t1), holds("b"), ends("a", t1)), "delete of things"),
		"ReleasedByAnother": wantHeld(play(writes("a", t1), elects("alice", ""), elects("b", "b_1"), writes("b", t1)),
			"2 checked"),
		"AfterItWasReleased": wantBroken(play(elects("alice", ""), writes("a", t1)), "no replica held the Lease"),
		"TwoLeaseNames":      wantBroken(play(writes("a", t1), writes("c", t1)), "replica c"),
		"LateButRefused": wantHeld(play(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Refused, 409)),
			"1 checked"),
		"LateButNeutral": wantHeld(play(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unchanged, 200))),
		"StandbyElects": wantHeld(play(writes("a", t1),
			asks("b", "update", object("Lease", "leader", "l"), history.Refused, 409))),
		"StandbyTells": wantHeld(play(writes("a", t1), writes("b", t1, func(r *history.Request) { r.Resource = events }))),
		"AboutTheChange": wantInconclusive(play(writes("a", t1), holds("b"), ends("a", t1, undated(2))),
			"changed about that time", "replica a or replica b"),
		"UndatedByLeader": wantHeld(play(writes("a", t1), ends("a", t1, undated(1)))),
		"UndatedStandby":  wantBroken(play(writes("a", t1), ends("b", t1, undated(1))), "between resourceVersions"),
		"LateTimeout":     wantHeld(play(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unknown, 504))),
		"TimeoutUnseen": wantInconclusive(play(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unknown, 504),
			without(history.Watch)), "may have been stored"),
		"TimeoutOfOthers": wantInconclusive(play(writes("a", t1), holds("b"),
			asks("a", "patch", t1, history.Unknown, 504, func(r *history.Request) { r.Resource.Resource = "others" })),
			"may have been stored"),
		"TimeoutNoName": wantInconclusive(play(writes("a", t1), holds("b"),
			asks("a", "create", t1, history.Unknown, 504, func(r *history.Request) { r.Name = "" })), "may have been stored"),
		"TimeoutStored": wantInconclusive(play(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unknown, 504),
			writes("b", t1), changes(func(s *script) { s.Requests = s.Requests[:len(s.Requests)-1] })), "may have been stored"),
		"TimeoutThenWritten": wantHeld(play(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unknown, 504),
			writes("b", t1))),
		"LeadersTimeout": wantHeld(play(asks("a", "patch", t1, history.Unknown, 504))),
		"WithoutBodies": wantInconclusive(play(writes("a", t1), holds("b"), asks("a", "update", t1, history.Stored, 200)),
			"its effect"),
		"NotWatched": wantInconclusive(play(writes("a", t1), holds("b"), asks("a", "update", t1, history.Stored, 200,
			func(r *history.Request) { r.Resource = history.Resource{Resource: "nodes"} })),
			`add this line to watched in subject.yaml: - {group: "", resource: nodes}`),
		"NoPod": wantInconclusive(play(writes("a", t1, func(r *history.Request) { r.Replica = "" })), "names no replica"),
		"BeforeTheRecord": wantInconclusive(play(writes("a", t1),
			changes(func(s *script) { s.Requests[1].RevisionRange = history.At(50) })), "at that time was not recorded"),
		"NoLease": wantInconclusive(play(writes("a", t1), changes(func(s *script) { s.Versions = s.Versions[1:] })),
			"Lease system/leader"),
		"NothingWritten": wantInconclusive(play(), "nothing that this promise applies to"),
		"FaultWasNot": wantInconclusive(play(writes("a", t1),
			changes(func(s *script) { s.Faults = []history.FaultRecord{{Name: "late-write"}} })), "late-write was not injected"),
		"FaultWas": wantHeld(play(writes("a", t1),
			changes(func(s *script) { s.Faults = []history.FaultRecord{{Name: "late-write", Happened: 1}} }))),
		"BrokenAnyway": wantBroken(play(writes("b", t1),
			changes(func(s *script) { s.Faults = []history.FaultRecord{{Name: "late-write"}} }))),
	})
}

// Without a fence a fault makes any operator write late, for a while.
func TestLateWriteIsNoViolationWithoutAFence(t *testing.T) {
	t1 := thing()
	late := func(replica string, began, until float64) *history.History {
		return play(writes("a", t1), holds("b"), writes("a", t1), delayed(replica, began, until))
	}
	fenced := func(c *invariant.Contract) { c.Fenced = true }
	check(t, invariant.SingleWriter, table{
		"InTime":         wantHeld(late("a", 0.3, 0.4), "2 checked"),
		"TooLate":        wantBroken(late("a", 0.3, 0.39), "replica b held the Lease"),
		"BeforeTheFault": wantBroken(late("a", 0.41, 5), "replica b held the Lease"),
		"OfAnother":      wantBroken(late("b", 0.3, 5), "replica b held the Lease"),
		"Fenced":         wantBroken(late("a", 0.3, 5), "replica b held the Lease").under(fenced),
	})
}
