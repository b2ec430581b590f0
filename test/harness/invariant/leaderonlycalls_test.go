package invariant_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// waits lets time pass in which nothing happens.
func waits(d time.Duration) step {
	return changes(func(s *story) { s.now = s.now.Add(d) })
}

// starts begins a process of a replica.
func starts(who string) step {
	return changes(func(s *story) {
		s.tick()
		s.Replicas = append(s.Replicas, history.Process{Name: who, Started: s.now})
	})
}

// elects gives the Lease of 4 seconds to a process of a replica, by its whole identity.
func elects(who, identity string) step {
	return writes(who, object("Lease", "leader", "uid-lease", func(o *unstructured.Unstructured) {
		o.SetNamespace("system")
		o.Object["spec"] = map[string]any{"holderIdentity": identity, "leaseDurationSeconds": int64(4)}
	}))
}

func TestExternalByLeader(t *testing.T) {
	by := func(who string) step {
		return calls(history.Get, "bucket", "u1", history.Done, func(c *history.Call) { c.Replica = who })
	}
	long := waits(time.Second)
	unanswered := calls(history.Create, "bucket", "u1", history.Failed)
	// fault is one of the whole story, about a replica.
	fault := func(who string, change func(*history.FaultRecord)) step {
		return changes(func(s *story) {
			f := history.FaultRecord{Name: "P", Replica: who, Happened: 1, Began: second(0), Ended: s.now.Add(time.Hour)}
			change(&f)
			s.Faults = append(s.Faults, f)
		})
	}
	falseEnd := func(f *history.FaultRecord) { f.FalseEnd = true }
	bounded := func(o *invariant.Contract) { o.Limits.Deposed = metav1.Duration{Duration: 2 * time.Second} }
	byLateHolder := []string{"get of external bucket for UID u1 by replica a", "at that time replica b held the Lease"}
	check(t, invariant.LeaderOnlyCalls, map[string]row{
		"Holder":    {history: tell(by("a"), holds("a"), by("a")), want: invariant.Held, says: []string{"2 checked"}},
		"NewHolder": {history: tell(holds("b"), by("b")), want: invariant.Held},
		"TakenMeanwhile": {history: tell(by("a"), holds("b"), changes(func(s *story) { s.Calls[0].Ended = s.now })),
			want: invariant.Held},
		"NeverHeld": {history: tell(by("a"), by("b")), want: invariant.Broken,
			says: []string{"by replica b", "at that time replica a held the Lease"}},
		"Released": {history: tell(holds(""), long, by("a")), want: invariant.Broken,
			says: []string{"no replica held the Lease"}},
		"ReleasedJustNow": {history: tell(holds(""), by("a")), want: invariant.Inconclusive,
			says: []string{"changed about that time, between replica a or no replica"}},
		"Taken": {history: tell(holds("b"), long, by("a")), want: invariant.Broken, says: byLateHolder},
		"TakenJustNow": {history: tell(holds("b"), by("a")), want: invariant.Inconclusive,
			says: []string{"between replica a or replica b"}},
		"NotYetTaken": {history: tell(by("b"), holds("b")), want: invariant.Broken,
			says: []string{"by replica b", "replica a held the Lease"}},
		"Failed": {history: tell(holds("b"), long, unanswered), want: invariant.Broken,
			says: []string{"create of external bucket"}},

		"RestartedAndNotElected": {history: tell(starts("a"), elects("a", "a_2"), starts("a"), by("a")),
			want: invariant.Broken, says: []string{"an earlier process of that replica"}},
		"RestartedAndElected": {history: tell(starts("a"), elects("a", "a_2"), starts("a"), elects("a", "a_3"), by("a")),
			want: invariant.Held},
		"RestartedLater": {history: tell(starts("a"), elects("a", "a_2"), by("a"), starts("a")), want: invariant.Held},
		"Renewed": {history: tell(elects("a", "a_1"), waits(3*time.Second), elects("a", "a_1"), waits(3*time.Second),
			by("a")), want: invariant.Held},
		"NearExpiry": {history: tell(elects("a", "a_1"), waits(4*time.Second), by("a")), want: invariant.Held},
		"Expired": {history: tell(elects("a", "a_1"), waits(5*time.Second), by("a")), want: invariant.Broken,
			says: []string{"the last renewal of the Lease was at resourceVersion 102", "its duration is 4s"}},
		"LastsUnknown": {history: tell(waits(time.Hour), by("a")), want: invariant.Held},

		"FalseEnd": {history: tell(holds("b"), long, by("a"), fault("a", falseEnd)), change: bounded,
			want: invariant.Held},
		"FalseEndTooLong": {history: tell(holds("b"), long, long, by("a"), fault("a", falseEnd)), change: bounded,
			want: invariant.Broken, says: byLateHolder},
		"FalseEndTwoTermsAgo": {history: tell(holds("c"), long, long, long, holds("b"), by("a"), fault("a", falseEnd)),
			change: bounded, want: invariant.Broken},
		"FalseEndOfAnother": {history: tell(holds("b"), long, by("a"), fault("b", falseEnd)), change: bounded,
			want: invariant.Broken, says: byLateHolder},
		"FalseEndLater": {history: tell(holds("b"), long, by("a"),
			fault("a", func(f *history.FaultRecord) { f.FalseEnd, f.Began = true, second(30) })), change: bounded,
			want: invariant.Broken, says: byLateHolder},
		"FalseEndNeverHeld": {history: tell(by("b"), fault("b", falseEnd)), change: bounded, want: invariant.Broken},
		"FalseEndWithoutTerm": {history: tell(holds("b"), long, by("a"), fault("a", falseEnd)), want: invariant.Inconclusive,
			says: []string{"no limit for calls after that"}},

		"Unknown": {history: tell(by("")), want: invariant.Inconclusive, says: []string{"is unknown"}},
		"BeforeTheRecord": {history: tell(by("a"), changes(func(s *story) { s.Calls[0].Began = second(-9) })),
			want: invariant.Inconclusive, says: []string{"at that time was not recorded"}},
		"Nothing": {history: tell(writes("a", thing())), want: invariant.Inconclusive,
			says: []string{"nothing that this promise applies to"}},
		"NoLease": {history: tell(by("a"), changes(func(s *story) { s.Versions = nil })), want: invariant.Inconclusive,
			says: []string{"Lease system/leader"}},
		"NoExternal": {history: tell(by("a"), without(history.External)), want: invariant.Inconclusive,
			says: []string{"[external]"}},
		"NoAudit": {history: tell(by("a"), without(history.Audit)), want: invariant.Inconclusive,
			says: []string{"[audit]"}},
		"NoProcesses": {history: tell(by("a"), without(history.Processes)), want: invariant.Inconclusive,
			says: []string{"[processes]"}},
	})
}
