// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// An object of a user is lost if it was deleted and no step deletes it, its namespace or an owner. That is a finding of
// its own, before all others.
func TestLost(t *testing.T) {
	mine := part("mine", "m1", ownerless)
	made := part("mine", "m2", ownerless)
	inside, mirror := secret("s", "s1", nil), secret("s", "c1", nil)
	space := object("Namespace", "ns", "n1")
	whole := func(r *history.Request) { r.Verb, r.Name, r.UID = "deletecollection", "", "" }
	copied := all(hidden(writes("a", mirror)), hidden(ends("a", mirror)), hidden(writes("alice", inside)),
		changes(func(s *script) { s.Requests[len(s.Requests)-1].From-- }))
	const gc = "system:serviceaccount:kube-system:generic-garbage-collector"
	user := writes("alice", mine)
	run := func(steps ...step) *history.History {
		return play(writes("alice", thing()), rests("made"), all(steps...), rests("end"))
	}
	for name, tc := range map[string]struct {
		steps []step
		clean step
		want  string // the lost object; "" for none
	}{
		"Operator":         {[]step{user, ends("a", mine)}, user, "configmaps ns/mine"},
		"GarbageCollector": {[]step{user, ends(gc, mine)}, user, "configmaps ns/mine"},
		"RecreatedByOperator": {[]step{user, ends("a", mine), writes("a", made)}, all(user, writes("a", mine)),
			"configmaps ns/mine"},
		"OfItsKind":            {[]step{ends("a", thing())}, user, "things.example.com ns/t"},
		"NotWatched":           {[]step{writes("alice", inside), ends("a", inside)}, all(), "secrets ns/s"},
		"AfterACopy":           {[]step{copied, writes("a", thing()), hidden(ends("a", inside))}, copied, "secrets ns/s"},
		"NamespaceByOperator":  {[]step{user, ends("a", space), ends(gc, mine)}, user, "configmaps ns/mine"},
		"BeforeAStepDeletesIt": {[]step{user, ends("a", mine), ends("alice", made)}, user, "configmaps ns/mine"},
		"RefusedStep":          {[]step{user, asks("alice", "delete", mine, history.Refused, 403), ends("a", mine)}, user, "configmaps ns/mine"},
		"OfTheOperator":        {[]step{writes("a", mine), ends("a", mine)}, writes("a", mine), ""},
		"OfTheCluster":         {[]step{writes(gc, mine), ends("a", mine)}, writes(gc, mine), ""},
		"Step":                 {[]step{user, ends("alice", mine)}, user, ""},
		"StepOfAll":            {[]step{user, ends("alice", mine, whole)}, user, ""},
		"StepThatWaits":        {[]step{user, asks("alice", "delete", mine, history.Stored, 200), ends("a", mine)}, user, ""},
		"NamespaceByStep":      {[]step{user, ends("alice", space), ends(gc, mine)}, user, ""},
		"OwnerByStep": {[]step{writes("alice", part("mine", "m1")), ends("alice", thing()), ends(gc, part("mine", "m1"))},
			writes("alice", part("mine", "m1")), ""},
		"OwnerByOperator": {[]step{writes("alice", part("mine", "m1")), ends(gc, part("mine", "m1"))},
			writes("alice", part("mine", "m1")), "configmaps ns/mine"},
		"OwnerAddedByOperator": {[]step{user, writes("a", part("mine", "m1")), ends("alice", thing()), ends(gc, mine)}, user,
			"configmaps ns/mine"},
		"Fault":        {[]step{user, ends("a", mine), touching(mine)}, user, ""},
		"CleanRun":     {[]step{user, ends("a", mine)}, all(user, ends(gc, mine)), ""},
		"CleanRunWill": {[]step{user, ends("a", mine)}, all(user, writes("a", part("mine", "m1", leaving))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := invariant.Case{History: run(tc.steps...), References: pair(run(tc.clean)), Contract: operator()}
			findings := invariant.Findings(invariant.Judge(c))
			for i, f := range findings {
				g.Expect(f.Lost()).To(Equal(i == 0 && tc.want != ""), f.String())
			}
			if tc.want == "" {
				return
			}
			g.Expect(findings[0].String()).To(Equal("single-lifecycle (an object of a user was deleted): " + tc.want))
			g.Expect(findings[0].Violations).To(HaveLen(1))
			g.Expect(findings[0].Violations[0].Message).To(MatchRegexp(`^` + tc.want + `, which a step before "(made|end)" created, ` +
				`was deleted \(delete of .* by .*, answered 200, request request-\S+\), and no step deletes it$`))
			g.Expect(findings[0].Violations[0].Signature).NotTo(ContainSubstring("request"), "it is the same whoever deletes it")
			g.Expect(strings.Split(invariant.Judge(c)[0].String(), "\n")[1]).To(HavePrefix("    broken: " + tc.want + ", which"))
		})
	}
	own := run(user, ends("a", mine))
	g := NewWithT(t)
	c := invariant.Case{History: own, References: pair(own), Contract: operator()}
	g.Expect(invariant.SingleLifecycle.Judge(c).Result).To(Equal(invariant.Held), "a clean run shows what is meant")
}
