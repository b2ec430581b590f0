// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

func TestCovered(t *testing.T) {
	hot := class{Name: "hot-loop", Bug: "it loops", Seen: []string{"https://example.com"}}
	never := class{Name: "never", Bug: "it is not so", Seen: []string{"https://example.com"}, Cannot: "there is none"}
	looping, ghost := mutant{name: "a", Class: "hot-loop"}, mutant{name: "b", Class: "never"}
	for name, tc := range map[string]struct {
		classes []class
		all     []mutant
		want    string
	}{
		"All":        {[]class{hot, never}, []mutant{looping}, ""},
		"NoMutant":   {[]class{hot}, nil, "class hot-loop: there is neither"},
		"Impossible": {[]class{never}, []mutant{ghost}, "class never: it is said to be impossible"},
		"NoClass":    {[]class{never}, []mutant{looping}, `mutant a: no class is called "hot-loop"`},
		"Unseen":     {[]class{{Name: "x", Bug: "y", Cannot: "z"}}, nil, "class 1 x: it needs"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := covered(tc.classes, tc.all)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

const patch = "--- a/file\n+++ b/file\n@@ -1,1 +1,1 @@\n-right\n+wrong\n"

func TestParseMutant(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"Good":    {"class: a\nbug: b\nkills: quiescence\nplans: [s, 's:crash-after-write:PATCH:/x:1']\n\n" + patch, ""},
		"NoPatch": {"class: a\nbug: b\nkills: quiescence\nplans: [s]\n", "no patch"},
		"NoSuchO": {"class: a\nbug: b\nkills: no-such-invariant\nplans: [s]\n" + patch, `no invariant is called "no-such-invariant"`},
		"NoPlan":  {"class: a\nbug: b\nkills: quiescence\n" + patch, "plans: say"},
		"NoSuchPlan": {"class: a\nbug: b\nkills: quiescence\nplans: ['s:no-such-fault:PATCH:/x:1']\n" + patch,
			`no fault is called "no-such-fault"`},
		"Unknown": {"class: a\nbug: b\nkills: quiescence\nplan: s\n" + patch, `unknown field "plan"`},
		"Nothing": {patch, "class: say"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m, err := parseMutant([]byte(tc.text))
			if tc.want != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(m.Plans).To(Equal([]string{"s", "s:crash-after-write:PATCH:/x:1"}))
		})
	}
}

func TestShortened(t *testing.T) {
	g := NewWithT(t)
	s := scenario.Scenario{Steps: []scenario.Step{
		{Wait: &scenario.Wait{Gone: true}}, {Quiesce: &scenario.Quiesce{}},
		{Quiesce: &scenario.Quiesce{Within: metav1.Duration{Duration: time.Hour}}}, {Name: "other"},
	}}
	quick := shortened(s)
	g.Expect(quick.Steps[0].Wait).To(Equal(&scenario.Wait{Gone: true, Within: metav1.Duration{Duration: inTime}}))
	g.Expect(quick.Steps[1].Quiesce.Within.Duration).To(Equal(inTime))
	g.Expect(quick.Steps[2:]).To(Equal(s.Steps[2:]))
	g.Expect(s.Steps[0].Wait.Within.Duration).To(BeZero(), "the scenario itself is as it was")
}

func verdicts(broken ...string) []invariant.Verdict {
	var all []invariant.Verdict
	for _, i := range invariant.All() {
		v := invariant.Verdict{Invariant: i.Name, Result: invariant.Held}
		for _, id := range broken {
			if id == i.Name {
				v.Result, v.Violations = invariant.Broken, []invariant.Violation{{Message: "it is not so"}}
			}
		}
		all = append(all, v)
	}
	return all
}

func TestRowJudge(t *testing.T) {
	happened := &history.History{}
	not := &history.History{Faults: []history.FaultRecord{{Name: "f"}}}
	for name, tc := range map[string]struct {
		outcome run.Judged
		want    result
		fired   []string
	}{
		"Killed":    {run.Judged{Outcome: invariant.Outcome{Verdicts: verdicts("end-state", "quiescence")}, History: happened}, killed, []string{"end-state", "quiescence"}},
		"ByOthers":  {run.Judged{Outcome: invariant.Outcome{Verdicts: verdicts("end-state")}, History: happened}, survived, []string{"end-state"}},
		"Unnoticed": {run.Judged{Outcome: invariant.Outcome{Verdicts: verdicts()}, History: happened}, survived, nil},
		"Void":      {run.Judged{Outcome: invariant.Outcome{Verdicts: verdicts("quiescence")}, History: not}, void, []string{"quiescence"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := row{Named: "quiescence"}
			r.judge(tc.outcome)
			g.Expect(r.Result).To(Equal(tc.want))
			g.Expect(r.Fired).To(Equal(tc.fired))
		})
	}
}

// All have to be killed, in each of their plans, and the operator as it is has to hold.
func TestFinish(t *testing.T) {
	dead := row{Mutant: "a", Plan: "s", Named: "quiescence", Verdict: invariant.Broken, Fired: []string{"quiescence"}, Result: killed,
		Took: time.Minute}
	alive, other := dead, dead
	alive.Result, other.Mutant = survived, "b"
	for name, tc := range map[string]struct {
		rows  []row
		flaws []string
		want  string
	}{
		"All":        {[]row{dead, dead, other}, nil, ""},
		"OneAlive":   {[]row{dead, alive, other}, nil, "2 mutants, 1 killed"},
		"FirstAlive": {[]row{alive, dead, other}, nil, "2 mutants, 1 killed"},
		"NotTried":   {[]row{dead}, nil, "2 mutants, 1 killed"},
		"Flaw":       {[]row{dead, other}, []string{"clean run 1 of s: broken"}, "does not hold: clean run 1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var output bytes.Buffer
			h := &hunt{options: options{dir: t.TempDir()}, output: &output, clock: clock.RealClock{}, rows: tc.rows,
				flaws: tc.flaws}
			err := h.finish(2)
			g.Expect(filepath.Join(h.options.dir, "mutants.json")).To(BeARegularFile())
			g.Expect(output.String()).To(ContainSubstring("quiescence"))
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(output.String()).To(ContainSubstring("2 mutants, 2 killed"))
				return
			}
			g.Expect(err).To(MatchError(errSurvived))
			g.Expect(output.String()).To(ContainSubstring(tc.want))
		})
	}
}

func TestParse(t *testing.T) {
	g := NewWithT(t)
	o, err := parse([]string{"--run=hot", "--baseline=false", "--seed=7"}, io.Discard)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.seed).To(BeEquivalentTo(7))
	g.Expect(o.baseline).To(BeFalse())
	g.Expect(chosen([]mutant{{name: "hot-loop"}, {name: "cold"}}, o.match)).To(HaveLen(1))
	_, err = parse([]string{"--run=("}, io.Discard)
	g.Expect(err).To(MatchError(ContainSubstring("reading --run")))
	_, err = parse([]string{"--count=0"}, io.Discard)
	g.Expect(err).To(MatchError(ContainSubstring("reading --count")))
}
