// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"leasehold.dev/test/harness/invariant"
)

// counting is a clean run with so many status writes and lists.
func counting(writes, lists int) invariant.Outcome {
	o := outcome("clean", "", invariant.Held)
	for i, n := range []int{writes, lists} {
		if n > 0 {
			o.Requests = append(o.Requests, invariant.RequestCount{Step: "ready", Method: []string{"PATCH", "LIST"}[i],
				Resource: []string{"things.example.com/status", "pods"}[i], Path: []string{"/things/{a}/status", "/pods"}[i], Count: n})
		}
	}
	return o
}

// Only what no clean run of one program has in common with a run of the other is a change.
func TestSweep_Changes(t *testing.T) {
	type runs = []invariant.Outcome
	for name, tc := range map[string]struct {
		before, now runs
		want        map[string]int
	}{
		"Same":       {runs{counting(1, 1)}, runs{counting(1, 1), counting(1, 1)}, map[string]int{}},
		"More":       {runs{counting(1, 1), counting(1, 1)}, runs{counting(2, 1), counting(2, 1)}, map[string]int{"PATCH": 1}},
		"Fewer":      {runs{counting(1, 3), counting(1, 3)}, runs{counting(1, 1), counting(1, 1)}, map[string]int{"LIST": -2}},
		"New, gone":  {runs{counting(0, 2)}, runs{counting(1, 0)}, map[string]int{"PATCH": 1, "LIST": -2}},
		"Incidental": {runs{counting(1, 1), counting(2, 0)}, runs{counting(2, 1), counting(2, 0)}, map[string]int{}},
		"Scenario":   {nil, runs{counting(1, 0)}, map[string]int{"PATCH": 1}},
		"Not run":    {runs{counting(1, 0)}, nil, map[string]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for byPath, path := range map[bool]types.GomegaMatcher{true: Not(BeEmpty()), false: BeEmpty()} {
				found := map[string]int{}
				for _, c := range (&Sweep{Clean: tc.now}).Changes(&Sweep{Clean: tc.before}, byPath) {
					found[c.Method] = c.Count
					g.Expect(c.Path).To(path)
				}
				g.Expect(found).To(Equal(tc.want))
			}
		})
	}
}

func TestSweep_Comparison(t *testing.T) {
	g := NewWithT(t)
	old := broke("1", "lost-response", "a", [2]string{"end-state", "old"})
	base := &Sweep{Clean: []invariant.Outcome{counting(1, 3)}, Outcomes: []invariant.Outcome{old}}
	dir := t.TempDir()
	g.Expect(base.Save(dir)).To(Succeed())
	loaded, err := LoadBase(dir)
	g.Expect(err).NotTo(HaveOccurred())
	s := &Sweep{Clean: []invariant.Outcome{counting(2, 1)}, Left: 1,
		Outcomes: []invariant.Outcome{old, broke("2", "crash-after-write", "b", [2]string{"end-state", "new"})}}
	var text bytes.Buffer
	g.Expect(s.SaveComparison(&text, loaded, dir)).To(Succeed())
	g.Expect(text.String()).To(And(
		ContainSubstring("1 new finding, 2 plans, 1 plan left out by --budget\n\nRequests of clean runs: 2 changes\n"),
		MatchRegexp(`\| life +\| ready +\| \+1 PATCH of things\.example\.com/status \|`),
		MatchRegexp(`\| -2 LIST of pods +\|`), ContainSubstring("end-state: new in 2"), Not(ContainSubstring("old in 1"))))
	g.Expect(os.ReadFile(filepath.Join(dir, comparisonFile))).To(Equal(text.Bytes()))
	g.Expect(Clear(dir)).To(Succeed())
	g.Expect(filepath.Join(dir, comparisonFile)).NotTo(BeAnExistingFile())

	more := &Sweep{Outcomes: []invariant.Outcome{
		broke("1", "lost-response", "a", [2]string{"end-state", "old"}, [2]string{"single-lifecycle", "old"})}}
	g.Expect(more.NewFindings(base)).To(HaveLen(1), "the same object breaks another invariant, too")
	g.Expect(base.NewFindings(more)).To(BeEmpty())

	g.Expect((&Sweep{Shard: "1/2", Clean: base.Clean}).Save(dir)).To(Succeed())
	_, err = LoadBase(dir)
	g.Expect(err).To(MatchError(ContainSubstring("has not all plans")))
	g.Expect((&Sweep{}).Save(dir)).To(Succeed())
	_, err = LoadBase(dir)
	g.Expect(err).To(MatchError(ContainSubstring("does not count requests")))
}
