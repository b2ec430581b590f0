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
	renewal := changes(func(s *story) {
		asks("a", "update", t1, history.Unchanged, 200, func(r *history.Request) { r.Key = lease }).tell(s)
	})
	series := func(before time.Duration) step {
		return changes(func(s *story) {
			writes("a", t1, func(r *history.Request) { r.Resource = events }).tell(s)
			s.Events = append(s.Events, history.Event{User: "op", RevisionRange: history.At(s.version),
				Observed: s.now.Add(-before), At: s.now})
		})
	}
	again := asks("a", "patch", t1, history.Unchanged, 200, func(r *history.Request) { r.Resource = events })
	check(t, invariant.Quiescence, map[string]row{
		"OnlyTheLease": {history: tell(writes("a", t1), rests("end")), want: invariant.Held},
		"OthersWrite": {history: tell(writes("a", t1), rests("end", writes("alice", t1), writes("gc", t1))),
			want: invariant.Held},
		"Reads": {history: tell(rests("end", asks("a", "list", t1, history.Read, 200),
			asks("a", "update", t1, history.Dry, 200))), want: invariant.Held},
		"BeforeAndAfter": {history: tell(writes("a", t1), rests("end"), writes("a", t1)), want: invariant.Held},
		"Writes": {history: tell(rests("end", writes("a", t1))), want: invariant.Broken,
			says: []string{`patch of things.example.com ns/t by replica a at resourceVersion 103, answered 200, during "end"`}},
		"Events": {history: tell(rests("end", writes("a", t1, func(r *history.Request) { r.Resource = events }))),
			want: invariant.Broken},
		"EndOfSeries":      {history: tell(rests("end", series(6*time.Minute))), want: invariant.Held},
		"EndOfSeriesTwice": {history: tell(rests("end", series(6*time.Minute), again)), want: invariant.Held},
		"RepeatedEvent":    {history: tell(rests("end", again)), want: invariant.Broken},
		"RepeatOfAnother":  {history: tell(rests("end", series(6*time.Minute), same)), want: invariant.Broken},
		"EventOfSeries":    {history: tell(rests("end", series(0))), want: invariant.Broken},
		"NoOps":            {history: tell(rests("end", same)), want: invariant.Broken, says: []string{"by replica a"}},
		"Refusals": {history: tell(rests("end", asks("b", "patch", t1, history.Refused, 409))), want: invariant.Broken,
			says: []string{"by replica b"}},
		"UntouchedFirst": {history: tell(rests("first"), changes(func(s *story) {
			s.Checkpoints[0].Untouched, s.Checkpoints[0].Ended = true, s.Checkpoints[0].Began
		}), rests("second")), want: invariant.Held},
		"SecondMark": {history: tell(rests("first"), rests("second", writes("a", t1))), want: invariant.Broken,
			says: []string{`"second"`}},
		"Dead": {history: tell(writes("a", t1), rests("end"), changes(func(s *story) { s.Requests[2].User = "alice" })),
			want: invariant.Inconclusive,
			says: []string{"so the silence proves nothing"}},
		"OnlyRefusedRenewals": {history: tell(rests("end"),
			changes(func(s *story) { s.Requests[1].Effect = history.Refused })), want: invariant.Inconclusive,
			says: []string{"no replica renewed"}},
		"TooShort": {history: tell(rests("end")),
			change: func(o *invariant.Contract) { o.Limits.Quiet.Duration = time.Minute }, want: invariant.Inconclusive,
			says: []string{`"end" lasted 2s, the minimum is 1m0s`}},
		"NeverAtRest": {history: tell(writes("a", t1)), want: invariant.Inconclusive, says: []string{"the history has no checkpoint"}},
		"NotConverged": {history: tell(rests("end", writes("a", t1)),
			changes(func(s *story) { s.Checkpoints[0].Converged = false })), want: invariant.Inconclusive},
		"NotRecorded": {history: tell(rests("end", writes("a", t1)), without(history.Audit)),
			want: invariant.Inconclusive, says: []string{"[audit]"}},
		"FewNoOps": {history: tell(same, same, rests("end")), want: invariant.Held},
		"ManyNoOps": {history: tell(same, same, same, rests("end")), want: invariant.Broken,
			says: []string{"changed nothing, like 2 writes to it before"}},
		"OthersNoOps":   {history: tell(unasked, unasked, unasked, rests("end")), want: invariant.Held},
		"ElectionNoOps": {history: tell(renewal, renewal, renewal, rests("end")), want: invariant.Held},
		"NoOpsUnlimited": {history: tell(same, same, same, rests("end")),
			change: func(o *invariant.Contract) { o.Limits.Unchanged = 0 }, want: invariant.Held},
		"FourWrites": {history: tell(writes("a", t1), writes("a", t1), writes("a", t1), writes("a", t1), rests("end")),
			want: invariant.Held},
		"FiveWrites": {history: tell(writes("a", t1), writes("a", t1), writes("a", t1), writes("a", t1),
			writes("a", t1), rests("end")), want: invariant.Broken, says: []string{"write 5 for generation 1 of UID u1"}},
		"FiveOfTwo": {history: tell(writes("a", t1), writes("a", t1), writes("a", t1),
			writes("alice", thing(generation(2))), writes("a", thing(generation(2))), writes("a", thing(generation(2))),
			rests("end")), want: invariant.Held},
		"ChildrenUnlimited": {history: tell(writes("a", part("p", "p")), writes("a", part("p", "p")),
			writes("a", part("p", "p")), writes("a", part("p", "p")), writes("a", part("p", "p")), rests("end")),
			want: invariant.Held},
	})
}
