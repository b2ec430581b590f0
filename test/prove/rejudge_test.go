// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/report"
)

// Recorded histories of our operator and of wrong ones get the same verdicts as when they were
// recorded. HISTORIES=<folder> judges the histories that a prover has kept there instead.
func TestRejudge(t *testing.T) {
	g := NewWithT(t)
	dir := os.Getenv("HISTORIES")
	own := dir == ""
	if own {
		dir = filepath.Join("testdata", "runs")
	}
	found, err := report.Find(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).NotTo(BeEmpty(), "no case.json in or below %s", dir)
	broken := map[string]bool{}
	for _, path := range found {
		t.Run(filepath.Base(path), func(t *testing.T) {
			for _, id := range rejudge(t, path) {
				broken[id] = true
			}
		})
	}
	if own {
		// An invariant that never finds anything would pass the comparison.
		g.Expect(broken).To(And(HaveKey("single-lifecycle"), HaveKey("convergence"), HaveKey("single-writer"), HaveKey("preconditions"), HaveKey("finalizer-order")))
	}
}

// rejudge judges one run again and returns the invariants that were broken.
func rejudge(t *testing.T, path string) (broken []string) {
	t.Helper()
	g := NewWithT(t)
	r, err := report.Load(path)
	g.Expect(err).NotTo(HaveOccurred())
	verdicts, result := r.Judge()
	now := map[string]invariant.Verdict{}
	for _, v := range verdicts {
		now[v.Invariant] = v
		if found(v) == invariant.Broken {
			broken = append(broken, v.Invariant)
			t.Log(v)
		}
	}
	inCleanRuns := false // violations of the run that clean runs have too
	for _, was := range r.Verdicts {
		is, there := now[was.Invariant]
		if !there {
			continue // the prover has lost it
		}
		if found(is) != found(was) {
			t.Errorf("it was\n%s\nand is now\n%s", was, is)
		}
		inCleanRuns = inCleanRuns || is.Result != was.Result
	}
	// A run that only a lost invariant broke holds now.
	lost := len(broken) == 0 && r.Result == invariant.Broken
	if result != r.Result && !inCleanRuns && !lost {
		t.Errorf("the run was %s and is now %s", r.Result, result)
	}
	return broken
}

// found returns the result of a verdict, with violations that clean runs have too counted as
// broken, as in histories that were kept before the two were separated.
func found(v invariant.Verdict) invariant.Result {
	if len(v.Known) > 0 {
		return invariant.Broken
	}
	return v.Result
}

// The clean runs of our operator, compared with each other, have no violations. An invariant that
// finds one raises false alarms.
func TestRejudge_CleanRunsBreakNothing(t *testing.T) {
	g := NewWithT(t)
	found, err := report.Find(cmp.Or(os.Getenv("HISTORIES"), filepath.Join("testdata", "runs")))
	g.Expect(err).NotTo(HaveOccurred())
	judged := 0
	for _, path := range found {
		r, err := report.Load(path)
		g.Expect(err).NotTo(HaveOccurred())
		if r.Result != invariant.Held && os.Getenv("HISTORIES") == "" {
			continue // recorded from a wrong operator
		}
		for i, h := range r.References {
			for _, v := range invariant.Judge(invariant.Case{History: h, References: r.References, Contract: r.Contract}) {
				judged++
				if v.Result == invariant.Broken {
					t.Errorf("clean run %d of %s: %s", i+1, r.Name, v)
				}
			}
		}
	}
	g.Expect(judged).To(BeNumerically(">", 0))
}
