// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"

	"leasehold.dev/test/harness/invariant"
)

func TestSettled(t *testing.T) {
	down := says("False", "Down", 1, "01")
	notYet := changes(func(s *script) { s.Checkpoints[0].Converged = false })
	unmet := changes(func(s *script) { s.Checkpoints[0].Unmet = []string{"Thing ns/t to have Ready=True"} })
	check(t, invariant.Convergence, table{
		"Reached":      wantHeld(play(writes("a", thing(ready)), rests("end"))),
		"WrittenAgain": wantHeld(play(writes("a", thing(ready)), rests("end", writes("a", thing(ready))))),
		"NotReached": wantBroken(play(writes("a", thing(ready)), rests("end"), notYet),
			`at "end" the desired state was not reached`),
		"NamesTheObject": wantBroken(play(writes("a", thing(ready)), rests("end"), notYet, unmet),
			`in time: Thing ns/t to have Ready=True`),
		"NotLasting": wantBroken(play(writes("a", thing(ready)), rests("end"), notYet, unmet,
			changes(func(s *script) { s.Checkpoints[0].Reached = s.now })), "was reached, and did not last: Thing ns/t to have Ready=True"),
		"Rejected": wantInconclusive(play(writes("a", thing(ready)), rejected("step 1 make"), rests("end"), notYet, unmet),
			"Thing ns/t to have Ready=True; step 1 make of Thing t was rejected: denied"),
		"RejectedLater": wantBroken(play(writes("a", thing(ready)), rests("end"), notYet, rejected("step 2 end"))),
		"RejectedClean": wantInconclusive(play(rejected("step 1 make"), writes("a", thing(ready)), rests("end")),
			"which the scenario does not expect"),
		"CleanupRejected": wantHeld(play(writes("a", thing(ready)), rests("end"), rejected(""))),
		"FlipsAndBack": wantBroken(play(writes("a", thing(ready)),
			rests("end", writes("a", thing(down)), writes("a", thing(ready)))),
			`during "end" Ready was "False" at resourceVersion 104 and "True" at resourceVersion 105`),
		"FlippedBefore": wantHeld(play(writes("a", thing(down)), writes("a", thing(ready)), rests("end"),
			writes("a", thing(down)))),
		"Behind": wantBroken(play(writes("a", thing(ready, generation(2))), rests("end")),
			"its status is about generation 1, not 2"),
		"NoCondition": wantBroken(play(writes("a", thing()), rests("end")),
			"things.example.com ns/t (UID u1) at resourceVersion 102", "no condition Ready"),
		"OnItsWayOut": wantHeld(play(writes("a", thing(held, leaving)), rests("end"))),
		"Gone":        wantHeld(play(writes("a", thing()), ends("alice", thing()), rests("end"))),
		"NoReadyToHave": wantHeld(play(writes("a", thing()), rests("end"))).
			under(func(o *invariant.Contract) { o.Kinds[0].Ready = "" }),
		"NoMark": wantInconclusive(play(writes("a", thing(ready))), "never waited"),
	})
}
