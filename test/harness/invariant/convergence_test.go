package invariant_test

import (
	"testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func TestSettled(t *testing.T) {
	down := says("False", "Down", 1, "01")
	notYet := changes(func(s *story) { s.Checkpoints[0].Converged = false })
	unmet := changes(func(s *story) { s.Checkpoints[0].Unmet = []string{"Thing ns/t to have Ready=True"} })
	check(t, invariant.Convergence, map[string]row{
		"Reached": {history: tell(writes("a", thing(ready)), rests("end")), want: invariant.Held},
		"WrittenAgain": {history: tell(writes("a", thing(ready)), rests("end", writes("a", thing(ready)))),
			want: invariant.Held},
		"NotReached": {history: tell(writes("a", thing(ready)), rests("end"), notYet), want: invariant.Broken,
			says: []string{`at "end" the desired state was not reached`}},
		"NamesTheObject": {history: tell(writes("a", thing(ready)), rests("end"), notYet, unmet), want: invariant.Broken,
			says: []string{`in time: Thing ns/t to have Ready=True`}},
		"Rejected": {history: tell(writes("a", thing(ready)), rejected("step 1 make"), rests("end"), notYet, unmet),
			want: invariant.Inconclusive, says: []string{"Thing ns/t to have Ready=True; step 1 make of Thing t was rejected: denied"}},
		"RejectedLater": {history: tell(writes("a", thing(ready)), rests("end"), notYet, rejected("step 2 end")),
			want: invariant.Broken},
		"RejectedClean": {history: tell(rejected("step 1 make"), writes("a", thing(ready)), rests("end")),
			want: invariant.Inconclusive, says: []string{"which the scenario does not expect"}},
		"CleanupRejected": {history: tell(writes("a", thing(ready)), rests("end"), rejected("")), want: invariant.Held},
		"FlipsAndBack": {history: tell(writes("a", thing(ready)),
			rests("end", writes("a", thing(down)), writes("a", thing(ready)))), want: invariant.Broken,
			says: []string{`during "end" Ready was "False" at resourceVersion 104 and "True" at resourceVersion 105`}},
		"FlippedBefore": {history: tell(writes("a", thing(down)), writes("a", thing(ready)), rests("end"),
			writes("a", thing(down))), want: invariant.Held},
		"Behind": {history: tell(writes("a", thing(ready, generation(2))), rests("end")), want: invariant.Broken,
			says: []string{"its status is about generation 1, not 2"}},
		"NoCondition": {history: tell(writes("a", thing()), rests("end")), want: invariant.Broken,
			says: []string{"things.example.com ns/t (UID u1) at resourceVersion 102", "no condition Ready"}},
		"OnItsWayOut": {history: tell(writes("a", thing(held, leaving)), rests("end")), want: invariant.Held},
		"Gone":        {history: tell(writes("a", thing()), ends("alice", thing()), rests("end")), want: invariant.Held},
		"NoReadyToHave": {history: tell(writes("a", thing()), rests("end")),
			change: func(o *invariant.Contract) { o.Kinds[0].Ready = "" }, want: invariant.Held},
		"NoMark": {history: tell(writes("a", thing(ready))), want: invariant.Inconclusive,
			says: []string{"never waited"}},
		"NotWatched": {history: tell(rests("end"), notYet, without(history.Watch)), want: invariant.Inconclusive,
			says: []string{"[watch]"}},
	})
}
