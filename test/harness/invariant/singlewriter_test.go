package invariant_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// undated places a deletion between so many versions before it and the next one.
func undated(before uint64) func(*history.Request) {
	return func(r *history.Request) { r.RevisionRange = history.RevisionRange{From: r.From - before, To: r.To + 1} }
}

// leases gives each version of the Lease its second, and all of them 4 seconds to last.
func leases(seconds ...int) step {
	return changes(func(s *story) {
		for i := range s.Versions {
			v := &s.Versions[i]
			if v.Resource != history.Leases || len(seconds) == 0 {
				continue
			}
			v.At = time.Date(2030, 1, 1, 0, 0, seconds[0], 0, time.UTC)
			seconds = seconds[1:]
			v.Object.Object["spec"].(map[string]any)["leaseDurationSeconds"] = int64(4)
		}
	})
}

func TestLeaseIsNotTaken(t *testing.T) {
	t1 := thing()
	taken := []string{"the Lease passed from a_1 to b_1 at resourceVersion 103, 1s after its renewal at resourceVersion 102: its duration is 4s"}
	at := func(second int) time.Time { return time.Date(2030, 1, 1, 0, 0, second, 0, time.UTC) }
	process := func(name string, started int, ended time.Time) step {
		return changes(func(s *story) {
			s.Replicas = append(s.Replicas, history.Process{Name: name, Started: at(started), Ended: ended})
		})
	}
	falseEnd := func(who string, began int) step {
		return changes(func(s *story) {
			s.Faults = append(s.Faults, history.FaultRecord{
				Name: "false-evidence", Replica: who, Happened: 1, Began: at(began), Ended: at(9),
				FalseEnd: true})
		})
	}
	with := func(more ...step) *history.History {
		return tell(slices.Concat([]step{holds("a"), holds("b"), writes("b", t1), leases(1, 4, 5)}, more)...)
	}
	check(t, invariant.SingleWriter, map[string]row{
		"HolderEnded":      {history: with(process("a", 0, at(5))), want: invariant.Held},
		"HolderEndIsNoted": {history: with(process("a", 0, at(5).Add(50*time.Millisecond))), want: invariant.Held},
		"HolderEndedLater": {history: with(process("a", 0, at(5).Add(200*time.Millisecond))), want: invariant.Broken,
			says: taken},
		"HolderRuns": {history: with(process("a", 0, time.Time{})), want: invariant.Broken, says: taken},
		"AnotherEnded": {history: with(process("b", 0, at(5)), process("a", 0, time.Time{})), want: invariant.Broken,
			says: taken},
		"EarlierProcessEnded": {history: with(process("a", 0, at(2)), process("a", 3, time.Time{})), want: invariant.Broken,
			says: taken},
		"LaterProcessEnded": {history: with(process("a", 0, time.Time{}), process("a", 5, at(5))), want: invariant.Broken,
			says: taken},
		"NamesThatBeginTheSame": {history: with(process("a", 0, time.Time{}), process("", 1, at(5))), want: invariant.Broken,
			says: taken},
		"FalseEnd": {history: with(process("a", 0, time.Time{}), falseEnd("a", 4)), want: invariant.Held},
		"FalseEndOfAnother": {history: with(process("a", 0, time.Time{}), falseEnd("b", 4)), want: invariant.Broken,
			says: taken},
		"FalseEndLater": {history: with(process("a", 0, time.Time{}), falseEnd("a", 6)), want: invariant.Broken,
			says: taken},
		"FalseEndAndLateWrite": {history: with(process("a", 0, time.Time{}), falseEnd("a", 4), writes("a", t1)),
			want: invariant.Broken, says: []string{"at that time replica b held the Lease"}, lacks: "was not given back"},
		"AnotherFault": {history: with(process("a", 0, time.Time{}), falseEnd("a", 4),
			changes(func(s *story) { s.Faults[0].FalseEnd = false })), want: invariant.Broken, says: taken},
		"Expired":   {history: tell(holds("b"), writes("b", t1), leases(1, 5)), want: invariant.Held},
		"AboutThen": {history: tell(holds("b"), writes("b", t1), leases(1, 4)), want: invariant.Held},
		"GivenBack": {history: tell(holds(""), holds("b"), writes("b", t1), leases(1, 2, 2)), want: invariant.Held},
		"Renewed":   {history: tell(holds("a"), writes("a", t1), leases(1, 2)), want: invariant.Held},
		"Taken": {history: tell(holds("a"), holds("b"), writes("b", t1), leases(1, 4, 5)), want: invariant.Broken,
			says: taken},
		"WhenUnknown": {history: tell(holds("a"), holds("b"), writes("b", t1), leases(1, 4, 5),
			changes(func(s *story) { s.Versions[1].At = time.Time{} })), want: invariant.Held},
		"MadeAnew": {history: tell(holds("b"), writes("b", t1), leases(1, 2),
			changes(func(s *story) { s.Versions[1].UID = "another" })), want: invariant.Held},
		"WasDeleted": {history: tell(holds("a"), holds("b"), writes("b", t1), leases(1, 2, 3),
			changes(func(s *story) { s.Versions[1].Gone = true })), want: invariant.Held},
	})
}

func TestHolderWritesTheTime(t *testing.T) {
	t1 := thing()
	// renews has replica a renew the Lease of 4 seconds with a time that is so old.
	renews := func(age time.Duration) step {
		return step{func(s *story) {
			s.now = second(20)
			writes("a", object("Lease", "leader", "uid-lease", func(o *unstructured.Unstructured) {
				o.SetNamespace("system")
				o.Object["spec"] = map[string]any{
					"holderIdentity": "a_1", "leaseDurationSeconds": int64(4),
					"renewTime": second(20).Add(-age).Format("2006-01-02T15:04:05.000000Z07:00"),
				}
			})).tell(s)
		}}
	}
	spec := func(change func(map[string]any)) step {
		return changes(func(s *story) { change(s.Versions[1].Object.Object["spec"].(map[string]any)) })
	}
	stale := []string{"the Lease that a_1 wrote at resourceVersion 102 had been renewed 5.1s before, and its duration is 4s"}
	check(t, invariant.SingleWriter, map[string]row{
		"Fresh":      {history: tell(renews(0), writes("a", t1)), want: invariant.Held},
		"SlowlySent": {history: tell(renews(3*time.Second), writes("a", t1)), want: invariant.Held},
		"Ahead":      {history: tell(renews(-time.Hour), writes("a", t1)), want: invariant.Held},
		"Stale":      {history: tell(renews(5*time.Second), writes("a", t1)), want: invariant.Broken, says: stale},
		"NoTime": {history: tell(renews(time.Hour), writes("a", t1),
			spec(func(s map[string]any) { delete(s, "renewTime") })), want: invariant.Held},
		"NoDuration": {history: tell(renews(time.Hour), writes("a", t1),
			spec(func(s map[string]any) { delete(s, "leaseDurationSeconds") })), want: invariant.Held},
		"GivenBack": {history: tell(renews(time.Hour), holds("a"), writes("a", t1),
			spec(func(s map[string]any) { s["holderIdentity"] = "" })), want: invariant.Held},
		"OthersForged": {history: tell(renews(time.Hour), writes("a", t1),
			changes(func(s *story) { s.Requests[1].User = "alice" })), want: invariant.Held},
	})
}

func TestSingleWriter(t *testing.T) {
	t1 := thing()
	check(t, invariant.SingleWriter, map[string]row{
		"LeadersWrite": {history: tell(writes("a", t1), holds(""), holds("b"), writes("b", t1)), want: invariant.Held,
			says: []string{"2 checked"}},
		"RestartedAsLeader": {history: tell(holds("a"), writes("a", t1)), want: invariant.Held},
		"OthersMayWrite": {history: tell(writes("a", t1), writes("alice", t1), writes("garbage-collector", t1)),
			want: invariant.Held, says: []string{"1 checked"}},
		"StandbyWrites": {history: tell(writes("b", t1)), want: invariant.Broken,
			says: []string{"patch of things.example.com ns/t by replica b at resourceVersion 102",
				"at that time replica a held the Lease"}},
		"LateWrite": {history: tell(writes("a", t1), holds("b"), writes("a", t1)), want: invariant.Broken,
			says: []string{"replica a at resourceVersion 104", "replica b held the Lease"}},
		"AfterRelease": {history: tell(holds(""), writes("a", t1)), want: invariant.Broken,
			says: []string{"no replica held the Lease"}},
		"LateDeletion": {history: tell(writes("a", t1), holds("b"), ends("a", t1)), want: invariant.Broken,
			says: []string{"delete of things"}},
		"ReleasedByAnother": {history: tell(writes("a", t1), elects("alice", ""), elects("b", "b_1"), writes("b", t1)),
			want: invariant.Held, says: []string{"2 checked"}},
		"AfterItWasReleased": {history: tell(elects("alice", ""), writes("a", t1)), want: invariant.Broken,
			says: []string{"no replica held the Lease"}},
		"TwoLeaseNames": {history: tell(writes("a", t1), writes("c", t1)), want: invariant.Broken,
			says: []string{"replica c"}},
		"LateButRefused": {history: tell(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Refused, 409)),
			want: invariant.Held, says: []string{"1 checked"}},
		"LateButNeutral": {history: tell(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unchanged, 200)),
			want: invariant.Held},
		"StandbyElects": {history: tell(writes("a", t1),
			asks("b", "update", object("Lease", "leader", "l"), history.Refused, 409)), want: invariant.Held},
		"StandbyTells": {history: tell(writes("a", t1), writes("b", t1, func(r *history.Request) { r.Resource = events })),
			want: invariant.Held},
		"AboutTheChange": {history: tell(writes("a", t1), holds("b"), ends("a", t1, undated(2))),
			want: invariant.Inconclusive, says: []string{"changed about that time", "replica a or replica b"}},
		"UndatedByLeader": {history: tell(writes("a", t1), ends("a", t1, undated(1))), want: invariant.Held},
		"UndatedStandby": {history: tell(writes("a", t1), ends("b", t1, undated(1))), want: invariant.Broken,
			says: []string{"between resourceVersions"}},
		"LateTimeout": {history: tell(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unknown, 504)),
			want: invariant.Held},
		"TimeoutUnseen": {history: tell(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unknown, 504),
			without(history.Watch)), want: invariant.Inconclusive, says: []string{"may have been stored"}},
		"TimeoutOfOthers": {history: tell(writes("a", t1), holds("b"),
			asks("a", "patch", t1, history.Unknown, 504, func(r *history.Request) { r.Resource.Resource = "others" })),
			want: invariant.Inconclusive, says: []string{"may have been stored"}},
		"TimeoutNoName": {history: tell(writes("a", t1), holds("b"),
			asks("a", "create", t1, history.Unknown, 504, func(r *history.Request) { r.Name = "" })),
			want: invariant.Inconclusive, says: []string{"may have been stored"}},
		"TimeoutStored": {history: tell(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unknown, 504),
			writes("b", t1), changes(func(s *story) { s.Requests = s.Requests[:len(s.Requests)-1] })),
			want: invariant.Inconclusive, says: []string{"may have been stored"}},
		"TimeoutThenWritten": {history: tell(writes("a", t1), holds("b"), asks("a", "patch", t1, history.Unknown, 504),
			writes("b", t1)), want: invariant.Held},
		"LeadersTimeout": {history: tell(asks("a", "patch", t1, history.Unknown, 504)), want: invariant.Held},
		"WithoutBodies": {history: tell(writes("a", t1), holds("b"), asks("a", "update", t1, history.Stored, 200)),
			want: invariant.Inconclusive, says: []string{"its effect"}},
		"NoPod": {history: tell(writes("a", t1, func(r *history.Request) { r.Replica = "" })),
			want: invariant.Inconclusive, says: []string{"names no replica"}},
		"BeforeTheRecord": {history: tell(writes("a", t1),
			changes(func(s *story) { s.Requests[1].RevisionRange = history.At(50) })), want: invariant.Inconclusive,
			says: []string{"at that time was not recorded"}},
		"NoLease": {history: tell(writes("a", t1), changes(func(s *story) { s.Versions = s.Versions[1:] })),
			want: invariant.Inconclusive, says: []string{"Lease system/leader"}},
		"NoAudit": {history: tell(writes("b", t1), without(history.Audit)), want: invariant.Inconclusive,
			says: []string{"none of [audit] was recorded"}},
		"NothingWritten": {history: tell(), want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
		"FaultWasNot": {history: tell(writes("a", t1),
			changes(func(s *story) { s.Faults = []history.FaultRecord{{Name: "late-write"}} })), want: invariant.Inconclusive,
			says: []string{"late-write was not injected"}},
		"FaultWas": {history: tell(writes("a", t1),
			changes(func(s *story) { s.Faults = []history.FaultRecord{{Name: "late-write", Happened: 1}} })), want: invariant.Held},
		"BrokenAnyway": {history: tell(writes("b", t1),
			changes(func(s *story) { s.Faults = []history.FaultRecord{{Name: "late-write"}} })), want: invariant.Broken},
	})
}
