// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func TestRights(t *testing.T) {
	t1 := thing()
	forbidden := func(r *history.Request) { r.Forbidden = true }
	check(t, invariant.SufficientRights, table{
		"Allowed":  wantHeld(play(writes("a", t1))),
		"Denied":   wantHeld(play(asks("a", "patch", t1, history.Refused, 403))),
		"NotThere": wantHeld(play(asks("a", "get", t1, history.Read, 404), asks("a", "patch", t1, history.Refused, 404))),
		"Forbidden": wantBroken(play(asks("a", "patch", t1, history.Refused, 403, forbidden)),
			"patch of things.example.com ns/t by replica a", "lacks that right"),
		"MayNotRead": wantBroken(play(asks("a", "watch", t1, history.Read, 403, forbidden))),
		"WhoAreYou":  wantBroken(play(asks("a", "get", t1, history.Read, 401))),
		"NoSuchKind": wantBroken(play(asks("a", "watch", t1, history.Read, 404), asks("a", "list", t1, history.Read, 404),
			asks("a", "watch", t1, history.Read, 404), asks("a", "watch", t1, history.Read, 404)), "the resource does not exist"),
		"OptionalKind": wantHeld(play(asks("a", "list", t1, history.Read, 404), asks("b", "list", t1, history.Read, 404),
			asks("a", "list", t1, history.Read, 404), asks("b", "list", t1, history.Read, 404))),
		"UserMayNot": wantHeld(play(writes("a", t1), asks("alice", "patch", t1, history.Refused, 403, forbidden))),
		"InDefault": wantInconclusive(play(writes("a", t1)), "namespace default").
			under(func(o *invariant.Contract) { o.Lease.Namespace = "default" }),
		"NothingAsked": wantInconclusive(play(changes(func(s *script) { s.Requests = nil }))),
	})
}

// stops ends replica a after so many seconds, with an exit code.
func stops(seconds, exit int, change ...func(*history.Process)) step {
	return changes(func(s *script) {
		r := history.Process{Name: "a", Asked: s.now, Ended: s.now.Add(time.Duration(seconds) * time.Second), Exit: exit}
		for _, f := range change {
			f(&r)
		}
		s.Replicas = append(s.Replicas, r)
	})
}

// restarted makes a process one that received SIGTERM when it started, after others of its name.
func restarted(r *history.Process) { r.Started = r.Asked.Add(time.Millisecond) }

func TestShutdown(t *testing.T) {
	t1 := thing()
	check(t, invariant.CleanShutdown, table{
		"Clean":            wantHeld(play(writes("a", t1), holds(""), stops(1, 0))),
		"KeepsTheLease":    wantHeld(play(writes("a", t1), stops(1, 0))),
		"Standby":          wantHeld(play(stops(1, 0, func(r *history.Process) { r.Name = "b" }))),
		"LedTwice":         wantHeld(play(holds("b"), holds("a"), writes("a", t1), holds(""), stops(1, 0))),
		"Late":             wantBroken(play(stops(11, 0)), "replica a took 11s to stop: the limit is 10s"),
		"NoGrace":          wantHeld(play(stops(11, 0))).under(func(o *invariant.Contract) { o.Limits.Grace.Duration = 0 }),
		"ExitCode":         wantBroken(play(stops(1, 1)), "exit code 1"),
		"SignalledAtStart": wantHeld(play(stops(0, -1, restarted))),
		"SignalledStandby": wantBroken(play(asks("b", "get", object("Lease", "leader", "uid-lease"), history.Read, 200),
			stops(0, -1, func(r *history.Process) { r.Name = "b" })), "exit code -1"),
		"SignalledLeader": wantBroken(play(stops(0, -1)), "exit code -1"),
		"SignalledAfterAWrite": wantBroken(play(writes("b", t1), stops(0, -1, func(r *history.Process) { r.Name = "b" })),
			"exit code -1"),
		"FailedAtStart": wantBroken(play(stops(0, 1, restarted)), "exit code 1"),
		"Never": wantBroken(play(stops(1, 0, func(r *history.Process) { r.Ended = time.Time{} })),
			"still ran at the end"),
		"WritesOn": wantBroken(play(writes("a", t1), holds(""), writes("a", t1), stops(1, 0)), "at resourceVersion 104",
			"had released the Lease at resourceVersion 103"),
		"TellsOn": wantHeld(play(writes("a", t1), holds(""),
			writes("a", t1, func(r *history.Request) { r.Resource = events }), stops(1, 0))),
		"RefusedOn": wantHeld(play(writes("a", t1), holds(""), asks("a", "patch", t1, history.Refused, 403), stops(1, 0))),
		"MaybeOn": wantInconclusive(play(writes("a", t1), holds(""), ends("a", t1, undated(2)), stops(1, 0)),
			"the history does not show"),
		"Killed": wantInconclusive(play(stops(1, 137, func(r *history.Process) { r.Killed = true })),
			"nothing that this promise applies to"),
		"NotAsked": wantInconclusive(play(stops(1, 1, func(r *history.Process) { r.Asked = time.Time{} }))),
	})
}

// correct is a run in which each invariant has something to judge, and holds.
func correct(more ...step) invariant.Case {
	steps := append(life(), changes(func(s *script) {
		s.Checkpoints[0].Things = []history.ExternalThing{{Name: "bucket", Owner: "u1"}}
		s.Events = []history.Event{{User: "op", Regarding: "u1", Reason: "Made", RevisionRange: history.At(105)}}
		s.Decisions = []history.Decision{{Step: "look", Action: "alice may look", Want: true, Allowed: true}}
		s.Faults = []history.FaultRecord{{Name: "attack", Happened: 1, Attack: true}}
		for i := range s.Checkpoints {
			s.Checkpoints[i].Acted, s.Checkpoints[i].Reached = s.Checkpoints[i].Began.Add(-time.Second), s.Checkpoints[i].Began
		}
	}), holds(""), stops(1, 0), probed(), follows("/things", 0.5, 0.6), answers(history.Ready, history.Yes, 0.7, 0.9),
		elects("c", "c_1"))
	steps = slices.Concat(steps, []step{elects("b", "b_1")}, more)
	c := invariant.Case{History: play(steps...), References: []*history.History{play(steps...), play(steps...)},
		Contract: operator()}
	c.Contract.Limits.Late.Duration = time.Second
	return c
}

func TestAll_HoldForACorrectRun(t *testing.T) {
	words, seen := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`), map[string]bool{}
	for _, i := range invariant.All() {
		if v := i.Judge(correct()); v.Result != invariant.Held {
			t.Errorf("%s", v)
		}
		if seen[i.Name] || !words.MatchString(i.Name) {
			t.Errorf("the name %q is no word of its own", i.Name)
		}
		seen[i.Name] = true
		if v := i.Judge(invariant.Case{History: &history.History{},
			Contract: operator()}); v.Result != invariant.Inconclusive {
			t.Errorf("of an empty history: %s", v)
		}
	}
}

// What was not recorded did not have to happen: without a source that it needs, no invariant holds.
func TestAll_NeedTheirSources(t *testing.T) {
	const audit, watch, external, processes, probes = history.Audit, history.Watch, history.External, history.Processes,
		history.Probes
	type sources = [][]history.Source // one of each is enough
	needs := map[string]sources{
		"end-state": {{watch}, {audit}}, "single-lifecycle": {{watch}, {audit}}, "convergence": {{watch}},
		"quiescence": {{audit}}, "single-writer": {{audit}}, "preconditions": {{audit}}, "ownership": {{audit}},
		"finalizer-order": {{audit, watch}, {external}}, "external-ownership": {{external}, {watch}},
		"truthful-status":   {{watch}, {audit}},
		"sufficient-rights": {{audit}}, "truthful-readiness": {{probes}, {processes}},
		"clean-shutdown": {{processes}, {audit}}, "leader-only-calls": {{external}, {audit}, {processes}},
		"tenant-isolation": {{watch}, {audit}}, "expected-rights": nil,
	}
	for _, i := range invariant.All() {
		all, known := needs[i.Name]
		if !known {
			t.Errorf("%s is not in the table", i.Name)
		}
		for _, missing := range all {
			v := i.Judge(correct(without(missing...)))
			if text := fmt.Sprintf("none of %v was recorded", missing); v.Result != invariant.Inconclusive ||
				!strings.Contains(v.String(), text) {
				t.Errorf("without %v: %s", missing, v)
			}
		}
	}
}
