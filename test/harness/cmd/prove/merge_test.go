// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/report"
)

// sweepOf writes the report of a sweep over 24 plans, or of a shard of them. Every third plan is
// broken: every sixth by a duplicate, the others by a leftover. One is void.
func sweepOf(t *testing.T, of string, edits ...func(*ledger)) (dir string) {
	t.Helper()
	g := NewWithT(t)
	l, _, wait := opened(t, options{})
	g.Expect(l.options.shard.Set(of)).To(Succeed())
	l.sweep.Shard = of
	g.Expect(l.compared(after(t, invariant.Held, ""))).To(Succeed())
	l.expect(24)
	for n := range 24 {
		id := fmt.Sprintf("tenant-life:lost-response:PATCH:/a/%02d:1", n)
		over := after(t, invariant.Held, id)
		switch {
		case n == 4:
			over = after(t, invariant.Void, id)
		case n%3 == 0:
			over = after(t, invariant.Broken, id)
			over.outcome.Verdicts[0].Violations[0].Signature = []string{"a duplicate", "a leftover"}[n%2]
		}
		if l.options.shard.has(*over.plan) {
			wait()
			g.Expect(l.add(over)).To(Succeed())
		}
	}
	for _, edit := range edits {
		edit(l)
	}
	if err := l.close(nil); err != nil {
		g.Expect(err).To(MatchError(errFound))
	}
	return l.options.dir
}

// contents are the plans with their verdicts, and the findings with their plans.
type contents struct {
	verdicts map[string][]invariant.Verdict
	findings map[string][]string
	cases    map[string]int
}

func read(t *testing.T, dir string) contents {
	t.Helper()
	g := NewWithT(t)
	c := contents{map[string][]invariant.Verdict{}, map[string][]string{}, map[string]int{}}
	s, err := report.LoadSweep(dir)
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range s.Outcomes {
		g.Expect(c.verdicts).NotTo(HaveKey(o.Plan))
		c.verdicts[o.Plan] = o.Verdicts
		if o.Result == invariant.Held {
			continue
		}
		kept, err := report.Load(filepath.Join(dir, o.Name))
		g.Expect(err).NotTo(HaveOccurred(), "what did not hold is in the report")
		g.Expect([]string{kept.Name, kept.Plan}).To(Equal([]string{o.Name, o.Plan}))
		g.Expect(filepath.Join(dir, o.Name, "timeline.html")).To(BeARegularFile())
		g.Expect(os.ReadFile(filepath.Join(dir, o.Name, "audit.log"))).To(BeEquivalentTo("{}\n"))
	}
	for _, f := range s.Findings() {
		for _, r := range f.Runs {
			c.findings[f.Violations[0].Signature] = append(c.findings[f.Violations[0].Signature], r.Plan)
		}
	}
	var junit struct {
		Suites []struct {
			Cases []struct {
				Name string `xml:"name,attr"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "junit.xml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(xml.Unmarshal(text, &junit)).To(Succeed())
	g.Expect(junit.Suites).To(HaveLen(1), "one scenario, one suite")
	for _, one := range junit.Suites[0].Cases {
		if _, isPlan := c.verdicts[one.Name]; isPlan {
			c.cases[one.Name]++
		}
	}
	return c
}

// merged runs the subcommand.
func merged(t *testing.T, args ...string) (dir, output string, code int) {
	t.Helper()
	dir = t.TempDir()
	var out bytes.Buffer
	err := execute(t.Context(), append([]string{"merge", "--dir", dir}, args...), &out)
	if err != nil {
		out.WriteString(err.Error())
	}
	return dir, out.String(), program.ExitCode(err, errFound)
}

func TestMerge_IsOneRun(t *testing.T) {
	g := NewWithT(t)
	want := read(t, sweepOf(t, ""))
	g.Expect(want.verdicts).To(HaveLen(24))
	g.Expect(want.findings).To(And(HaveLen(2), HaveKeyWithValue("a duplicate", HaveLen(4))))
	g.Expect(want.cases).To(HaveLen(24))
	var first report.Summary
	for n := 1; n <= 4; n++ {
		var dirs []string
		for i := n; i >= 1; i-- { // the order of the arguments is of no importance
			dirs = append(dirs, sweepOf(t, fmt.Sprintf("%d/%d", i, n)))
		}
		dir, output, code := merged(t, dirs...)
		g.Expect(code).To(Equal(1), "with findings, as a run")
		g.Expect(output).To(And(ContainSubstring("24 plans"),
			ContainSubstring("15 held, 8 broken, 0 inconclusive, 1 void; findings: 2")))
		g.Expect(read(t, dir)).To(Equal(want), "with %d shards", n)
		s, err := report.LoadSweep(dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.Clean).To(HaveLen(n), "each shard has its own")
		g.Expect([]any{s.Seed, s.Shard, s.Undone}).To(Equal([]any{uint64(7), "", ""}))
		sum := s.Summary()
		if n == 1 {
			first = sum
		}
		g.Expect(sum.Findings).To(HaveLen(len(first.Findings)))
		for i, f := range sum.Findings {
			g.Expect(f.Finding).To(Equal(first.Findings[i].Finding), "the same words, with %d shards", n)
		}
	}
}

// A shard that is not there, or that has not done its work, must not pass as a complete sweep.
func TestMerge_MissingShardsAreUndone(t *testing.T) {
	g := NewWithT(t)
	one, three := sweepOf(t, "1/3"), sweepOf(t, "3/3")
	dir, output, code := merged(t, one, three)
	g.Expect(code).To(Equal(2))
	g.Expect(output).To(And(ContainSubstring("shard 2/3 is missing"), ContainSubstring(" plans, ")))
	g.Expect(filepath.Join(dir, "junit.xml")).To(BeARegularFile(), "the report of the others")

	two := sweepOf(t, "2/3", func(l *ledger) { l.sweep.Undone = "no control plane" })
	_, output, code = merged(t, one, two, three)
	g.Expect(code).To(Equal(2))
	g.Expect(output).To(ContainSubstring("shard 2/3 ended early: no control plane"))

	_, output, code = merged(t, one, filepath.Join(t.TempDir(), "none"))
	g.Expect(code).To(Equal(2))
	g.Expect(output).To(ContainSubstring("none/summary.json"))
}

func TestMerge_Held(t *testing.T) {
	g := NewWithT(t)
	held := func(l *ledger) {
		var some []invariant.Outcome
		for _, o := range l.sweep.Outcomes {
			if o.Result == invariant.Held {
				some = append(some, o)
			}
		}
		l.sweep.Outcomes = some
	}
	one, two := sweepOf(t, "1/2", held), sweepOf(t, "2/2", held)
	_, output, code := merged(t, one, two, "--output=json")
	g.Expect(code).To(BeZero(), output)
	var sum report.Summary
	g.Expect(json.Unmarshal([]byte(output), &sum)).To(Succeed())
	g.Expect(sum.Plans).To(Equal(15))
}

func TestMerge_RejectsReportsOfOtherSweeps(t *testing.T) {
	one := sweepOf(t, "1/2")
	for name, tc := range map[string]struct {
		other string
		says  string
	}{
		"whole": {sweepOf(t, ""), "they are of 2 and of 1 shards"},
		"twice": {one, "both are shard 1/2"},
		"count": {sweepOf(t, "2/3"), "they are of 2 and of 3 shards"},
		"seed":  {sweepOf(t, "2/2", func(l *ledger) { l.sweep.Seed = 8 }), "they have the seeds 7 and 8"},
		"exceptions": {sweepOf(t, "2/2", func(l *ledger) {
			l.sweep.Except = []invariant.Exception{{Invariant: "end-state"}}
		}), "other exceptions"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, output, code := merged(t, one, tc.other)
			g.Expect(code).To(Equal(2))
			g.Expect(output).To(ContainSubstring(tc.says))
		})
	}
	g := NewWithT(t)
	_, output, code := merged(t, one, "--dir", one)
	g.Expect(code).To(Equal(2))
	g.Expect(output).To(ContainSubstring("is the directory of a shard"))
	g.Expect(filepath.Join(one, "summary.json")).To(BeARegularFile())
}

// Shards run side by side, so their sweep takes from the first start to the last end.
func TestMerge_Duration(t *testing.T) {
	g := NewWithT(t)
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &report.Sweep{}
	s.Append(&report.Sweep{Began: at.Add(time.Minute), Took: time.Hour}, "a-")
	s.Append(&report.Sweep{}, "b-")
	s.Append(&report.Sweep{Began: at, Took: time.Minute}, "c-")
	g.Expect(s.Began).To(Equal(at))
	g.Expect(s.Took).To(Equal(61 * time.Minute))
}

func TestSweep_RecordsWhyItEndedEarly(t *testing.T) {
	g := NewWithT(t)
	o := asked(t, "--shard=2/3")
	o.dir = t.TempDir()
	var output bytes.Buffer
	g.Expect(newSweep(o, invariant.Contract{}, &output).finish(fmt.Errorf("no control plane"))).To(Succeed())
	s, err := report.LoadSweep(o.dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]string{s.Shard, s.Undone}).To(Equal([]string{"2/3", "no control plane"}))
}
