// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// reached sets the time from the last action to the last checkpoint; a negative time means that it
// was not reached.
func reached(after time.Duration) step {
	return mark(func(m *history.Checkpoint) {
		m.Acted = m.Began.Add(-time.Minute)
		m.Reached = m.Acted.Add(after)
		if after < 0 {
			m.Reached, m.Converged = time.Time{}, false
		}
	})
}

// attacked is an attack that happened so often, from the namespace evil.
func attacked(happened int) step {
	return changes(func(s *script) {
		s.Hostile = []string{"evil"}
		s.Faults = append(s.Faults, history.FaultRecord{Name: "attack", Happened: happened, Attack: true})
	})
}

// decides is the answer to whether alice may do something.
func decides(want, allowed bool) step {
	return changes(func(s *script) {
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
		return play(writes("alice", thing(ready)), all(steps...), rests("end"), reached(after))
	}
	clean := []*history.History{run(time.Second), run(2 * time.Second)}
	slow := []*history.History{run(20 * time.Second), run(10 * time.Second)}
	theirs := pair(run(time.Second, writes("stranger", object("Namespace", "theirs", "r1"))))
	stranger := thing(named("other", "u9"))
	check(t, invariant.TenantIsolation, table{
		"InTime":          wantHeld(run(2*time.Second, attacked(1))),
		"AsLateAsAllowed": wantHeld(run(12*time.Second, attacked(1))),
		"TooLate": wantBroken(run(12001*time.Millisecond, attacked(1)), `at "end"`, "10.001s later than in clean runs (2s)",
			"at most 10s"),
		"ThriceAsLong":   wantHeld(run(60*time.Second, attacked(1))).against(slow...),
		"LongerThanThat": wantBroken(run(60001*time.Millisecond, attacked(1))).against(slow...),
		"Never":          wantBroken(run(-1, attacked(1)), "was not reached 1m0s after"),
		"OneMoreObject": wantBroken(run(time.Second, attacked(1), writes("a", stranger)),
			"things.example.com ns/other (UID u9", "in no clean run"),
		"OneLessObject": wantBroken(run(time.Second, attacked(1), ends("gc", thing())),
			"things.example.com ns/t does not exist"),
		"Changed": wantBroken(run(time.Second, attacked(1), writes("a", thing(says("False", "Down", 1, "05")))), "Down"),
		"NotOurs": wantBroken(run(time.Second, attacked(1), writes("stranger", object("Namespace", "theirs", "r1")),
			ends("gc", object("Namespace", "theirs", "r1"))),
			"namespaces theirs does not exist").against(theirs...),
		"ItsOwnObjects": wantHeld(run(time.Second, attacked(1), writes("mallory", thing(named("m", "u9"), in("evil"))))),
		"ItsNamespace":  wantHeld(run(time.Second, attacked(1), writes("mallory", room("evil", "r9")))),
		"NoAttack":      wantInconclusive(run(-1), "nothing that this promise applies to"),
		"DidNotHappen":  wantInconclusive(run(time.Second, attacked(0)), "was not injected"),
		"NoLimit":       wantInconclusive(run(time.Second, attacked(1)), "no limit").under(asItIs),
		"OtherMarks": wantInconclusive(run(time.Second, attacked(1)), `how long "end" takes`).
			against(pair(play(rests("start")))...),
	}.against(clean...).under(late))
}

// Promises about objects leave out what is in a hostile namespace; those about each
// request of the operator do not.
func TestHostileNamespaces(t *testing.T) {
	evil := thing(named("m", "u9"), in("evil"), says("Maybe", "Fine", 1, "01"))
	run := func(hostile ...string) *history.History {
		return play(writes("a", thing(ready)), writes("b", evil), changes(func(s *script) { s.Hostile = hostile }))
	}
	check(t, invariant.TruthfulStatus, table{
		"Judged":  wantBroken(run()),
		"LeftOut": wantHeld(run("evil")),
	})
	check(t, invariant.SingleWriter, table{"StillJudged": wantBroken(run("evil"))})
}

func TestDecisions(t *testing.T) {
	check(t, invariant.ExpectedRights, table{
		"Allowed":    wantHeld(play(decides(true, true))),
		"Refused":    wantHeld(play(decides(false, false))),
		"Lost":       wantBroken(play(decides(true, false)), `at step "look" alice may get pods ns is false, want true`),
		"Gained":     wantBroken(play(decides(false, true))),
		"NotDecided": wantInconclusive(play(), "nothing that this promise applies to"),
	})
}
