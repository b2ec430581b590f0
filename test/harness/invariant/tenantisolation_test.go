package invariant_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// reached says how long after the last action the last mark was reached; a negative
// time is that it was not.
func reached(after time.Duration) step {
	return changes(func(s *story) {
		m := &s.Checkpoints[len(s.Checkpoints)-1]
		m.Acted = m.Began.Add(-time.Minute)
		m.Reached = m.Acted.Add(after)
		if after < 0 {
			m.Reached, m.Converged = time.Time{}, false
		}
	})
}

// attacked is an attack that happened so often, from the namespace evil.
func attacked(happened int) step {
	return changes(func(s *story) {
		s.Hostile = []string{"evil"}
		s.Faults = append(s.Faults, history.FaultRecord{Name: "attack", Happened: happened, Attack: true})
	})
}

// decides is the answer to whether alice may do something.
func decides(want, allowed bool) step {
	return changes(func(s *story) {
		s.Decisions = append(s.Decisions,
			history.Decision{Step: "look", Action: "alice may get pods ns", Want: want, Allowed: allowed})
	})
}

func in(namespace string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetNamespace(namespace) }
}

func TestIsolation(t *testing.T) {
	late := func(o *invariant.Contract) { o.Limits.Late.Duration = 10 * time.Second }
	// A run has an object of its own, the given steps, and one checkpoint.
	run := func(after time.Duration, steps ...step) *history.History {
		all := append([]step{writes("alice", thing(ready))}, steps...)
		return tell(append(all, rests("end"), reached(after))...)
	}
	clean := []*history.History{run(time.Second, decides(false, false)), run(2*time.Second, decides(false, false))}
	slow := []*history.History{run(20 * time.Second), run(10 * time.Second)}
	theirs := []*history.History{run(time.Second, writes("stranger", object("Namespace", "theirs", "r1"))),
		run(time.Second, writes("stranger", object("Namespace", "theirs", "r1")))}
	stranger := thing(named("other", "u9"))
	check(t, invariant.TenantIsolation, map[string]row{
		"InTime":          {history: run(2*time.Second, attacked(1)), references: clean, change: late, want: invariant.Held},
		"AsLateAsAllowed": {history: run(12*time.Second, attacked(1)), references: clean, change: late, want: invariant.Held},
		"TooLate": {history: run(12001*time.Millisecond, attacked(1)), references: clean, change: late,
			want: invariant.Broken, says: []string{`at "end"`, "10.001s later than in clean runs (2s)", "at most 10s"}},
		"ThriceAsLong": {history: run(60*time.Second, attacked(1)), references: slow, change: late, want: invariant.Held},
		"LongerThanThat": {history: run(60001*time.Millisecond, attacked(1)), references: slow, change: late,
			want: invariant.Broken},
		"Never": {history: run(-1, attacked(1)), references: clean, change: late, want: invariant.Broken,
			says: []string{"was not reached 1m0s after"}},
		"OneMoreObject": {history: run(time.Second, attacked(1), writes("a", stranger)), references: clean, change: late,
			want: invariant.Broken, says: []string{"things.example.com ns/other (UID u9", "in no clean run"}},
		"OneLessObject": {history: run(time.Second, attacked(1), ends("gc", thing())), references: clean, change: late,
			want: invariant.Broken, says: []string{"things.example.com ns/t does not exist"}},
		"Changed": {history: run(time.Second, attacked(1), writes("a", thing(says("False", "Down", 1, "05")))),
			references: clean, change: late, want: invariant.Broken, says: []string{"Down"}},
		"NotOurs": {history: run(time.Second, attacked(1), writes("stranger", object("Namespace", "theirs", "r1")),
			ends("gc", object("Namespace", "theirs", "r1"))), references: theirs, change: late, want: invariant.Broken,
			says: []string{"namespaces theirs does not exist"}},
		"ItsOwnObjects": {history: run(time.Second, attacked(1), writes("mallory", thing(named("m", "u9"), in("evil")))),
			references: clean, change: late, want: invariant.Held},
		"ItsNamespace": {history: run(time.Second, attacked(1), writes("mallory", room("evil", "r9"))), references: clean,
			change: late, want: invariant.Held},
		"GainedRight": {history: run(time.Second, attacked(1), decides(false, true)), references: clean, change: late,
			want: invariant.Broken, says: []string{`step "look" alice may get pods ns is true, in clean runs false`}},
		"SameRight": {history: run(time.Second, attacked(1), decides(false, false)), references: clean, change: late,
			want: invariant.Held},
		"NoAttack": {history: run(-1), references: clean, change: late, want: invariant.Inconclusive,
			says: []string{"nothing that this promise applies to"}},
		"DidNotHappen": {history: run(time.Second, attacked(0)), references: clean, change: late,
			want: invariant.Inconclusive, says: []string{"was not injected"}},
		"NoLimit": {history: run(time.Second, attacked(1)), references: clean, want: invariant.Inconclusive,
			says: []string{"no limit"}},
		"OtherMarks": {history: run(time.Second, attacked(1)), references: []*history.History{tell(rests("start")),
			tell(rests("start"))}, change: late, want: invariant.Inconclusive, says: []string{`how long "end" takes`}},
		"NotWatched": {history: run(-1, attacked(1), without(history.Watch)), references: clean, change: late,
			want: invariant.Inconclusive, says: []string{"[watch]"}},
	})
}

// Promises about objects leave out what is in a hostile namespace; those about each
// request of the operator do not.
func TestHostileNamespaces(t *testing.T) {
	evil := thing(named("m", "u9"), in("evil"), says("Maybe", "Fine", 1, "01"))
	run := func(hostile ...string) *history.History {
		return tell(writes("a", thing(ready)), writes("b", evil), changes(func(s *story) { s.Hostile = hostile }))
	}
	check(t, invariant.TruthfulStatus, map[string]row{
		"Judged":  {history: run(), want: invariant.Broken},
		"LeftOut": {history: run("evil"), want: invariant.Held},
	})
	check(t, invariant.SingleWriter, map[string]row{"StillJudged": {history: run("evil"), want: invariant.Broken}})
}

func TestDecisions(t *testing.T) {
	check(t, invariant.ExpectedRights, map[string]row{
		"Allowed": {history: tell(decides(true, true)), want: invariant.Held},
		"Refused": {history: tell(decides(false, false)), want: invariant.Held},
		"Lost": {history: tell(decides(true, false)), want: invariant.Broken,
			says: []string{`at step "look" alice may get pods ns is false, want true`}},
		"Gained": {history: tell(decides(false, true)), want: invariant.Broken},
		"Meanwhile": {history: tell(decides(true, false), changes(func(s *story) { s.Decisions[0].During = "rule-change" })),
			want: invariant.Broken, says: []string{"during rule-change"}},
		"NotDecided": {history: tell(), want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
	})
}
