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

// Histories of real runs, of our operator and of wrong ones, come to the verdicts
// that they had when they were recorded. HISTORIES=<folder> judges those that a
// prover has kept there in place of ours.
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
		// Otherwise an invariant that never finds anything would do as well.
		g.Expect(broken).To(And(HaveKey("single-lifecycle"), HaveKey("convergence"), HaveKey("single-writer"), HaveKey("preconditions"), HaveKey("finalizer-order"), HaveKey("bounded-events")))
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
	inCleanRuns := false // a violation that was the run's is now one of the clean runs
	for _, was := range r.Verdicts {
		is, there := now[was.Invariant]
		g.Expect(there).To(BeTrue(), "there is no %s any more", was.Invariant)
		if found(is) != found(was) {
			t.Errorf("it was\n%s\nand is now\n%s", was, is)
		}
		inCleanRuns = inCleanRuns || is.Result != was.Result
	}
	if result != r.Result && !inCleanRuns {
		t.Errorf("the run was %s and is now %s", r.Result, result)
	}
	return broken
}

// found is the result of a verdict with the violations that clean runs have as well. Runs that were
// kept before these were separated count them as broken.
func found(v invariant.Verdict) invariant.Result {
	if len(v.Known) > 0 {
		return invariant.Broken
	}
	return v.Result
}

// The clean runs of our operator break nothing, compared with each other: a promise that
// finds something in them raises false alarms.
func TestRejudge_CleanRunsBreakNothing(t *testing.T) {
	g := NewWithT(t)
	found, err := report.Find(cmp.Or(os.Getenv("HISTORIES"), filepath.Join("testdata", "runs")))
	g.Expect(err).NotTo(HaveOccurred())
	judged := 0
	for _, path := range found {
		r, err := report.Load(path)
		g.Expect(err).NotTo(HaveOccurred())
		if r.Result != invariant.Held && os.Getenv("HISTORIES") == "" {
			continue // what is kept here and did not hold is of a wrong operator
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
