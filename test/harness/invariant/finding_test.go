// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// unconditional is a deletion without a precondition, which preconditions forbids.
func unconditional(r *history.Request) { r.NeedsUID = "" }

// A violation that occurs in clean runs broke every plan.
func TestJudge_CleanRunsBreakIt(t *testing.T) {
	g := NewWithT(t)
	run := func(alias string, steps ...step) *history.History {
		return play(writes("alice", thing()), writes("a", part(alias, "p-"+alias)),
			ends("a", part(alias, "p-"+alias), unconditional), all(steps...), calledAs(map[string]string{alias: "{part}"}),
			rests("end"))
	}
	clean := []*history.History{run("p-1-a"), run("p-2-b")}
	judge := func(h *history.History) invariant.Verdict {
		return invariant.Preconditions.Judge(invariant.Case{History: h, References: clean, Contract: operator()})
	}
	again := judge(run("p-3-c", writes("a", thing())))
	g.Expect(again.Result).To(Equal(invariant.Held), again.String())
	g.Expect(again.Violations).To(BeEmpty())
	g.Expect(again.Known).To(HaveLen(1))
	g.Expect(again.String()).To(ContainSubstring("in clean runs, too: "))

	more := judge(run("p-3-c", writes("a", part("q", "q1")), ends("a", part("q", "q1"), unconditional)))
	g.Expect(more.Result).To(Equal(invariant.Broken), "for everything else the plan is judged")
	g.Expect(more.Violations).To(HaveLen(1))
	g.Expect(more.Violations[0].Message).To(ContainSubstring("ns/q"))
	g.Expect(more.Known).To(HaveLen(1))

	g.Expect(judge(clean[0]).Result).To(Equal(invariant.Broken), "the first clean run that has it reports it")
	second := judge(clean[1])
	g.Expect(second.Result).To(Equal(invariant.Held), "once")
	g.Expect(second.Known).To(HaveLen(1))
	g.Expect(judge(saved(t, clean[0])).Result).To(Equal(invariant.Held),
		"a history without a start is no clean run of its own")
	stored := clean[0].Checkpoints[0].Began
	clean[0].Began = stored
	g.Expect(judge(saved(t, clean[0])).Result).To(Equal(invariant.Broken), "a stored clean run is the same run")
}

func TestJudge_Excepted(t *testing.T) {
	g := NewWithT(t)
	h := play(writes("alice", thing()), writes("a", part("p", "p1")), ends("a", part("p", "p1"), unconditional))
	c := invariant.Case{History: h, Contract: operator()}
	c.Contract.Except = []invariant.Exception{{Invariant: "preconditions", Reason: "its API has no preconditions"}}
	v := invariant.Preconditions.Judge(c)
	g.Expect(v.Result).To(Equal(invariant.Broken), "it is evaluated")
	g.Expect(v.String()).To(ContainSubstring("preconditions broken, excepted (its API has no preconditions)"))
	g.Expect(invariant.Sum(h, []invariant.Verdict{v}, []string{"preconditions"})).To(Equal(invariant.Held))
	g.Expect(invariant.Findings(invariant.Judge(c))).NotTo(
		ContainElement(HaveField("Invariants", ContainElement("preconditions"))))
	c.Contract.Except = nil
	g.Expect(invariant.Sum(h, invariant.Judge(c), nil)).To(Equal(invariant.Broken))
}

// One object that was created twice is found by end-state and by single-lifecycle.
func TestFindings_OneCauseIsOneFinding(t *testing.T) {
	g := NewWithT(t)
	run := func(alias string, steps ...step) *history.History {
		return play(writes("alice", thing()), writes("a", part(alias+"-x1", "p1", generated)), all(steps...),
			calledAs(map[string]string{alias: "{part}"}), rests("end"))
	}
	clean := []*history.History{run("p-1-a"), run("p-2-b")}
	findings := func(h *history.History) []invariant.Finding {
		c := invariant.Case{History: h, References: clean, Contract: operator()}
		verdicts := []invariant.Verdict{invariant.EndState.Judge(c), invariant.SingleLifecycle.Judge(c),
			invariant.Preconditions.Judge(c)}
		return invariant.Findings(verdicts)
	}
	g.Expect(findings(run("p-3-c"))).To(BeEmpty())

	twice := findings(run("p-3-c", writes("a", part("p-3-c-x2", "p2", generated))))
	g.Expect(twice).To(HaveLen(1))
	g.Expect(twice[0].Invariants).To(Equal([]string{"single-lifecycle", "end-state"}))
	g.Expect(twice[0].Objects).To(Equal([]string{"configmaps ns/p-*"}))
	g.Expect(twice[0].Violations).To(HaveLen(2))

	two := findings(run("p-3-c", writes("a", part("p-3-c-x2", "p2", generated)), writes("a", part("q", "q1")),
		ends("a", part("q", "q1"), unconditional)))
	g.Expect(two).To(HaveLen(2), "another object is another cause")
	g.Expect(two[1].Invariants).To(Equal([]string{"single-lifecycle", "preconditions"}), "the deletion is one request")

	missing := findings(play(writes("alice", thing()), rests("end")))
	g.Expect(missing).To(HaveLen(1), "what does not exist has no revision to share")
	g.Expect(missing[0].Invariants).To(Equal([]string{"single-lifecycle", "end-state"}))
}

// A child that is left is found by end-state, single-lifecycle and finalizer-order.
func TestFindings_ChildThatIsLeft(t *testing.T) {
	g := NewWithT(t)
	run := func(alias string, steps ...step) *history.History {
		return play(writes("alice", thing(held)), writes("a", room(alias, "r1")), writes("alice", thing(held, leaving)),
			all(steps...), ends("a", thing()), calledAs(map[string]string{alias: "{room}"}), rests("end"))
	}
	clean := []*history.History{run("r-1-a", ends("a", room("r-1-a", "r1"))), run("r-2-b", ends("a", room("r-2-b", "r1")))}
	c := invariant.Case{History: run("r-3-c"), References: clean, Contract: operator()}
	findings := invariant.Findings(
		[]invariant.Verdict{invariant.EndState.Judge(c), invariant.SingleLifecycle.Judge(c),
			invariant.FinalizerOrder.Judge(c)})
	g.Expect(findings).To(HaveLen(1))
	g.Expect(findings[0].Invariants).To(Equal([]string{"single-lifecycle", "end-state", "finalizer-order"}))
	g.Expect(findings[0].Objects).To(Equal([]string{"namespaces {room}", "things.example.com ns/t"}))
}

// In another run the same violation has other names, versions and times.
func TestSignature(t *testing.T) {
	g := NewWithT(t)
	run := func(alias, uid string) *history.History {
		return play(writes("alice", thing()), holds("b"), holds("a"), writes("a", part(alias, uid)),
			ends("a", part(alias, uid), unconditional), calledAs(map[string]string{alias: "{part}"}))
	}
	signature := func(h *history.History) string {
		v := invariant.Preconditions.Judge(invariant.Case{History: h, Contract: operator()})
		g.Expect(v.Violations).To(HaveLen(1))
		return v.Violations[0].Signature
	}
	one := signature(run("p-1-abc", "6f0c1f7e-52a7-4b4b-9d7b-0d1d5f0f3a11"))
	g.Expect(one).To(ContainSubstring("{part}"))
	g.Expect(signature(run("p-27-x", "0d1d5f0f-52a7-4b4b-9d7b-6f0c1f7e3a11"))).To(Equal(one))
	g.Expect(signature(run("q", "6f0c1f7e-52a7-4b4b-9d7b-0d1d5f0f3a11"))).To(Equal(one), "the alias decides, not the name")

	// The API server generates another name in each run, and the scenario has no alias for it.
	drawn := func(name string) *history.History {
		return play(writes("alice", thing()), holds("b"), holds("a"), writes("a", part(name, "p1", generated)),
			ends("a", part(name, "p1", generated), unconditional))
	}
	two := signature(drawn("p-7fq2x"))
	g.Expect(two).To(ContainSubstring("ns/p-*"))
	g.Expect(signature(drawn("p-xkzlw"))).To(Equal(two))
}

// A verdict has a line for each object. Its details have each violation.
func TestVerdict_ListsObjects(t *testing.T) {
	g := NewWithT(t)
	about := func(object, message string) invariant.Violation {
		return invariant.Violation{Message: message, Objects: []string{object}}
	}
	v := invariant.Verdict{Violations: []invariant.Violation{about("jobs a", "one"), about("jobs b", "two"), about("jobs a", "three"),
		{Message: "four"}, {Message: "five"}, about("jobs a", "six")}}
	lines := "    broken: one; and 2 more about jobs a, in verdicts.txt\n    broken: two\n    broken: four\n    broken: five"
	g.Expect(v.String()).To(HaveSuffix("\n" + lines))
	g.Expect(v.Details()).To(HaveSuffix("broken: five\n    broken: six"))
	for n := range 20 {
		v.Known = append(v.Known, invariant.Violation{Message: fmt.Sprint("known ", n)})
	}
	g.Expect(v.String()).To(HaveSuffix("known 19"))
	v.Known = append(v.Known, invariant.Violation{Message: "the last"}, invariant.Violation{})
	g.Expect(v.String()).To(HaveSuffix("known 19\n    in clean runs, too: 2 more objects, in verdicts.txt"))
}

// Each event has a name of its own, with the time in it. What keeps events about one object from being written is one
// cause, in each run.
func TestFindings_EventsOfOneObject(t *testing.T) {
	g := NewWithT(t)
	forbidden := func(r *history.Request) { r.Forbidden = true }
	refused := func(verb, name string) step {
		return asks("a", verb, part(name, ""), history.Refused, 403, forbidden)
	}
	findings := func(steps ...step) []invariant.Finding {
		c := invariant.Case{History: play(steps...), Contract: operator()}
		return invariant.Findings([]invariant.Verdict{invariant.SufficientRights.Judge(c)})
	}
	found := findings(refused("create", "t.18ec3b48035a5d12"), refused("patch", "t.18ec3b48035a5d12"),
		refused("create", "t.18ec3b49abcdef01"))
	g.Expect(found).To(HaveLen(1))
	g.Expect(found[0].Objects).To(ConsistOf("configmaps ns/t.*"))
	other := findings(refused("create", "t.18ec3b51bcdef012"))
	g.Expect(other).To(HaveLen(1))
	g.Expect(other[0].SameCause(found[0])).To(BeTrue())
	g.Expect(findings(refused("create", "t.18ec3b51bcdef012"), refused("create", "u.18ec3b51bcdef013"))).To(HaveLen(2))
}

// An object alone is no cause: another invariant shares a request, a revision or the object in a wrong state. What a
// replica writes after its term has one cause, whatever the objects are.
func TestFindings_SeparateCauses(t *testing.T) {
	g := NewWithT(t)
	broken := func(i invariant.Invariant, violations ...invariant.Violation) invariant.Verdict {
		return invariant.Verdict{Invariant: i.Name, Result: invariant.Broken, Violations: violations}
	}
	about := func(name string, references ...invariant.HistoryRef) invariant.Violation {
		return invariant.Violation{Message: name, Signature: name, References: references, Objects: []string{name}}
	}
	wrong := func(name string) invariant.Violation { return about(name, invariant.HistoryRef{Object: name}) }
	at := func(revision uint64) invariant.HistoryRef { return invariant.HistoryRef{Revision: revision} }
	lost := wrong("p")
	lost.Lost, lost.References = true, append(lost.References, at(3))
	checkpoint := invariant.HistoryRef{Checkpoint: "end"}
	end, life, status := invariant.EndState, invariant.SingleLifecycle, invariant.TruthfulStatus
	for name, tc := range map[string]struct {
		verdicts []invariant.Verdict
		want     []string // the objects of each finding
	}{
		"Object": {[]invariant.Verdict{broken(end, wrong("p")), broken(status, about("p", at(1))),
			broken(invariant.Preconditions, about("p", at(2))), broken(invariant.Quiescence, about("p", at(3)))}, []string{"p", "p", "p", "p"}},
		"WrongState":   {[]invariant.Verdict{broken(end, wrong("p")), broken(life, wrong("p"))}, []string{"p"}},
		"Revision":     {[]invariant.Verdict{broken(life, about("p", at(1))), broken(status, about("q", at(1)))}, []string{"p q"}},
		"OneInvariant": {[]invariant.Verdict{broken(status, about("p", at(1)), about("p", at(2)))}, []string{"p"}},
		"Objects":      {[]invariant.Verdict{broken(end, wrong("p"), wrong("q"))}, []string{"p", "q"}},
		"Checkpoint":   {[]invariant.Verdict{broken(end, about("p", checkpoint), about("q", checkpoint))}, []string{"p", "q"}},
		"LateWrites": {[]invariant.Verdict{broken(invariant.SingleWriter, about("p", at(1)), about("q", at(2))), broken(end, wrong("q"))},
			[]string{"p q", "q"}},
		"Lost": {[]invariant.Verdict{broken(life, lost, wrong("p"), wrong("q")), broken(invariant.Preconditions, about("p", at(3)))},
			[]string{"p", "p", "q", "p"}},
		"LostTwice": {[]invariant.Verdict{broken(life, lost, lost)}, []string{"p"}},
	} {
		var got []string
		findings := invariant.Findings(tc.verdicts)
		for _, f := range findings {
			got = append(got, strings.Join(f.Objects, " "))
		}
		g.Expect(got).To(Equal(tc.want), name)
		g.Expect(findings[0].Lost()).To(Equal(strings.HasPrefix(name, "Lost")), name)
	}
}
