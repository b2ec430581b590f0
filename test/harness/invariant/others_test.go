package invariant_test

import (
	"regexp"
	"testing"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func TestProgress(t *testing.T) {
	t1 := thing()
	conflict := asks("a", "patch", t1, history.Refused, 409, func(r *history.Request) { r.Reason = "Conflict" })
	forbidden := asks("a", "patch", t1, history.Refused, 403)
	status := asks("a", "patch", t1, history.Refused, 409, func(r *history.Request) { r.Subresource = "status" })
	check(t, invariant.NoFutileRetry, map[string]row{
		"Writes": {history: tell(writes("a", t1)), want: invariant.Held},
		"AFew":   {history: tell(conflict, conflict, conflict, writes("a", t1)), want: invariant.Held},
		"AgainLater": {history: tell(conflict, conflict, conflict, writes("a", t1), conflict, conflict, conflict),
			want: invariant.Held},
		"OfEach": {history: tell(conflict, status, conflict, status, conflict, status,
			asks("b", "patch", t1, history.Refused, 409)), want: invariant.Held},
		"TooMany": {history: tell(conflict, conflict, conflict, conflict), want: invariant.Broken,
			says: []string{"patch of things.example.com ns/t by replica a", "(Conflict)", "3 consecutive times before"}},
		"TakenAway": {history: tell(writes("a", t1), denying(second(0), second(1)), forbidden, forbidden, forbidden,
			forbidden), want: invariant.Held},
		"GivenBack": {history: tell(writes("a", t1), denying(second(-9), second(-2)), forbidden, forbidden, forbidden,
			forbidden), want: invariant.Broken},
		"ElseMissing": {history: tell(writes("a", t1), denying(second(0), second(1)), conflict, conflict, conflict,
			conflict), want: invariant.Broken},
		"Fenced": {history: tell(writes("a", t1), holds("b"), forbidden, forbidden, forbidden, forbidden),
			want: invariant.Held},
		"FencedToo": {history: tell(writes("a", t1), holds("b"), conflict, conflict, conflict, conflict),
			want: invariant.Broken},
		"LeaderDenied": {history: tell(writes("a", t1), holds("b"), holds("a"), forbidden, forbidden, forbidden, forbidden),
			want: invariant.Broken},
		"OneOfUs": {history: tell(conflict, conflict, conflict, writes("b", t1), conflict, conflict, conflict),
			want: invariant.Held},
		"ElseOfUs": {history: tell(conflict, conflict, conflict,
			writes("b", t1, func(r *history.Request) { r.Subresource = "status" }), conflict), want: invariant.Broken},
		"OthersWrite": {history: tell(conflict, conflict, conflict, writes("alice", t1), conflict), want: invariant.Broken},
		"Users": {history: tell(writes("a", t1), asks("alice", "patch", t1, history.Refused, 409),
			asks("alice", "patch", t1, history.Refused, 409), asks("alice", "patch", t1, history.Refused, 409),
			asks("alice", "patch", t1, history.Refused, 409)), want: invariant.Held},
		"NoLimit": {history: tell(conflict), change: func(o *invariant.Contract) { o.Limits.InARow = 0 },
			want: invariant.Inconclusive, says: []string{"no limit"}},
		"Nothing": {history: tell(), want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
		"NotRecorded": {history: tell(conflict, conflict, conflict, conflict, without(history.Audit)),
			want: invariant.Inconclusive, says: []string{"[audit]"}},
	})
}

func TestEventBudget(t *testing.T) {
	tells := func(user, reason string, about string) step {
		return changes(func(s *story) {
			s.Events = append(s.Events, history.Event{User: user, Replica: "a", Type: "Normal", Reason: reason,
				Regarding: thing(named("t", about)).GetUID(), RevisionRange: history.At(s.version), At: s.now})
		})
	}
	made := tells("op", "Made", "u1")
	check(t, invariant.BoundedEvents, map[string]row{
		"Few": {history: tell(made, made), want: invariant.Held},
		"Flood": {history: tell(made, made, made), want: invariant.Broken,
			says: []string{"Normal Made about UID u1", "is number 3: at most 2"}},
		"OtherReason": {history: tell(made, made, tells("op", "Lost", "u1")), want: invariant.Held},
		"OtherObject": {history: tell(made, made, tells("op", "Made", "u2")), want: invariant.Held},
		"Others": {history: tell(made, tells("kubelet", "Made", "u1"), tells("kubelet", "Made", "u1"),
			tells("kubelet", "Made", "u1")), want: invariant.Held},
		"Elections": {history: tell(made, tells("op", "Leads", "uid-lease"), tells("op", "Leads", "uid-lease"),
			tells("op", "Leads", "uid-lease")), want: invariant.Held, says: []string{"1 checked"}},
		"NoLimit": {history: tell(made, made, made), change: func(o *invariant.Contract) { o.Limits.Events = 0 },
			want: invariant.Inconclusive, says: []string{"no limit"}},
		"None": {history: tell(), want: invariant.Inconclusive},
		"NotRecorded": {history: tell(made, made, made, without(history.Audit)), want: invariant.Inconclusive,
			says: []string{"[audit]"}},
	})
}

func TestRights(t *testing.T) {
	t1 := thing()
	forbidden := func(r *history.Request) { r.Forbidden = true }
	check(t, invariant.SufficientRights, map[string]row{
		"Allowed": {history: tell(writes("a", t1)), want: invariant.Held},
		"Denied":  {history: tell(asks("a", "patch", t1, history.Refused, 403)), want: invariant.Held},
		"NotThere": {history: tell(asks("a", "get", t1, history.Read, 404), asks("a", "patch", t1, history.Refused, 404)),
			want: invariant.Held},
		"Forbidden": {history: tell(asks("a", "patch", t1, history.Refused, 403, forbidden)), want: invariant.Broken,
			says: []string{"patch of things.example.com ns/t by replica a", "lacks that right"}},
		"MayNotRead": {history: tell(asks("a", "watch", t1, history.Read, 403, forbidden)), want: invariant.Broken},
		"WhoAreYou":  {history: tell(asks("a", "get", t1, history.Read, 401)), want: invariant.Broken},
		"NoSuchKind": {history: tell(asks("a", "watch", t1, history.Read, 404)), want: invariant.Broken,
			says: []string{"the resource does not exist"}},
		"TakenAway": {history: tell(writes("a", t1), denying(second(0), second(0.3)),
			asks("a", "patch", t1, history.Refused, 403, forbidden)), want: invariant.Held},
		"GivenBack": {history: tell(writes("a", t1), denying(second(-9), second(-2)),
			asks("a", "patch", t1, history.Refused, 403, forbidden)), want: invariant.Broken},
		"GivenBackJustNow": {history: tell(writes("a", t1), denying(second(-9), second(-1)),
			asks("a", "patch", t1, history.Refused, 403, forbidden)), want: invariant.Held},
		"NotTakenAway": {history: tell(writes("a", t1), denying(second(0), second(0.3)),
			changes(func(s *story) { s.Faults[0].Happened = 0 }), asks("a", "patch", t1, history.Refused, 403, forbidden)),
			want: invariant.Broken},
		"UserMayNot": {history: tell(writes("a", t1), asks("alice", "patch", t1, history.Refused, 403, forbidden)),
			want: invariant.Held},
		"InDefault": {history: tell(writes("a", t1)),
			change: func(o *invariant.Contract) { o.Lease.Namespace = "default" }, want: invariant.Inconclusive,
			says: []string{"namespace default"}},
		"NothingAsked": {history: tell(changes(func(s *story) { s.Requests = nil })), want: invariant.Inconclusive},
		"NotRecorded": {history: tell(asks("a", "get", t1, history.Read, 401), without(history.Audit)),
			want: invariant.Inconclusive, says: []string{"[audit]"}},
	})
}

// denying is a fault that takes rights away for a time.
func denying(from, to time.Time) step {
	return changes(func(s *story) {
		s.Faults = append(s.Faults, history.FaultRecord{Name: "no right", Happened: 1, Began: from, Ended: to, Denies: true})
	})
}

// stops is replica a's end, after so many seconds, with an exit code.
func stops(seconds, exit int, change ...func(*history.Process)) step {
	return changes(func(s *story) {
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
	check(t, invariant.CleanShutdown, map[string]row{
		"Clean":         {history: tell(writes("a", t1), holds(""), stops(1, 0)), want: invariant.Held},
		"KeepsTheLease": {history: tell(writes("a", t1), stops(1, 0)), want: invariant.Held},
		"Standby":       {history: tell(stops(1, 0, func(r *history.Process) { r.Name = "b" })), want: invariant.Held},
		"LedTwice": {history: tell(holds("b"), holds("a"), writes("a", t1), holds(""), stops(1, 0)),
			want: invariant.Held},
		"Late": {history: tell(stops(11, 0)), want: invariant.Broken,
			says: []string{"replica a took 11s to stop: the limit is 10s"}},
		"NoGrace": {history: tell(stops(11, 0)), change: func(o *invariant.Contract) { o.Limits.Grace.Duration = 0 },
			want: invariant.Held},
		"ExitCode":         {history: tell(stops(1, 1)), want: invariant.Broken, says: []string{"exit code 1"}},
		"SignalledAtStart": {history: tell(stops(0, -1, restarted)), want: invariant.Held},
		"SignalledStandby": {history: tell(asks("b", "get", object("Lease", "leader", "uid-lease"), history.Read, 200),
			stops(0, -1, func(r *history.Process) { r.Name = "b" })), want: invariant.Broken, says: []string{"exit code -1"}},
		"SignalledLeader": {history: tell(stops(0, -1)), want: invariant.Broken, says: []string{"exit code -1"}},
		"SignalledAfterAWrite": {history: tell(writes("b", t1), stops(0, -1, func(r *history.Process) { r.Name = "b" })),
			want: invariant.Broken, says: []string{"exit code -1"}},
		"FailedAtStart": {history: tell(stops(0, 1, restarted)), want: invariant.Broken, says: []string{"exit code 1"}},
		"Never": {history: tell(stops(1, 0, func(r *history.Process) { r.Ended = time.Time{} })),
			want: invariant.Broken, says: []string{"still ran at the end"}},
		"WritesOn": {history: tell(writes("a", t1), holds(""), writes("a", t1), stops(1, 0)), want: invariant.Broken,
			says: []string{"at resourceVersion 104", "had released the Lease at resourceVersion 103"}},
		"TellsOn": {history: tell(writes("a", t1), holds(""),
			writes("a", t1, func(r *history.Request) { r.Resource = events }), stops(1, 0)), want: invariant.Held},
		"RefusedOn": {history: tell(writes("a", t1), holds(""), asks("a", "patch", t1, history.Refused, 403), stops(1, 0)),
			want: invariant.Held},
		"MaybeOn": {history: tell(writes("a", t1), holds(""), ends("a", t1, undated(2)), stops(1, 0)),
			want: invariant.Inconclusive, says: []string{"the history does not show"}},
		"Killed": {history: tell(stops(1, 137, func(r *history.Process) { r.Killed = true })),
			want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
		"NotAsked": {history: tell(stops(1, 1, func(r *history.Process) { r.Asked = time.Time{} })),
			want: invariant.Inconclusive},
		"NotRecorded": {history: tell(stops(1, 1), without(history.Processes)), want: invariant.Inconclusive,
			says: []string{"[processes]"}},
		"NoAudit": {history: tell(stops(1, 1), without(history.Audit)), want: invariant.Inconclusive,
			says: []string{"[audit]"}},
	})
}

func TestAll_HoldForACorrectRun(t *testing.T) {
	steps := append(life(), changes(func(s *story) {
		s.Checkpoints[0].Things = []history.ExternalThing{{Name: "bucket", Owner: "u1"}}
		s.Events = []history.Event{{User: "op", Regarding: "u1", Reason: "Made", RevisionRange: history.At(105)}}
		s.Decisions = []history.Decision{{Step: "look", Action: "alice may look", Want: true, Allowed: true}}
		s.Faults = []history.FaultRecord{{Name: "attack", Happened: 1, Attack: true}}
		for i := range s.Checkpoints {
			s.Checkpoints[i].Acted, s.Checkpoints[i].Reached = s.Checkpoints[i].Began.Add(-time.Second), s.Checkpoints[i].Began
		}
	}), holds(""), stops(1, 0), probed(), follows("/things", 0.5, 0.6), answers(history.Ready, history.Yes, 0.7, 0.9),
		answers(history.Alive, history.Yes, 0.7, 0.9), usesAtRest(50), elects("c", "c_1"))
	steps = append(append(steps, polls("b", 6)...), elects("b", "b_1"))
	c := invariant.Case{History: tell(steps...), References: []*history.History{tell(steps...), tell(steps...)},
		Contract: operator()}
	words, seen := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`), map[string]bool{}
	c.Contract.Limits.Goroutines, c.Contract.Limits.Late.Duration = 10, time.Second
	c.Contract.Limits.Takeover.Duration = 2 * time.Second
	for _, i := range invariant.All() {
		if v := i.Judge(c); v.Result != invariant.Held {
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
