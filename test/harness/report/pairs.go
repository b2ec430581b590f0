package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"leasehold.dev/test/harness/invariant"
)

// FirstFault is the coverage of the second faults in the recovery from one first fault.
type FirstFault struct {
	Plan string `json:"plan"`
	// Result is that of the first fault alone; "" if it was not run. Only one that held has pairs.
	Result invariant.Result `json:"result,omitempty"`
	Writes []RecoveryWrite  `json:"writes,omitempty"`
}

// RecoveryWrite is the coverage of one write of a recovery.
type RecoveryWrite struct {
	Write string `json:"write"`
	// Possible is the number of second faults, and Results has those that were tried.
	Possible int                      `json:"possible"`
	Results  map[invariant.Result]int `json:"results,omitempty"`
}

// Add adds a possible second fault at a write.
func (f *FirstFault) Add(write string) { f.find(write).Possible++ }

// Tried adds the result of a pair that was run.
func (f *FirstFault) Tried(write string, r invariant.Result) {
	w := f.find(write)
	if w.Results == nil {
		w.Results = map[invariant.Result]int{}
	}
	w.Results[r]++
}

func (f *FirstFault) find(write string) *RecoveryWrite {
	i := slices.IndexFunc(f.Writes, func(w RecoveryWrite) bool { return w.Write == write })
	if i < 0 {
		i, f.Writes = len(f.Writes), append(f.Writes, RecoveryWrite{Write: write})
	}
	return &f.Writes[i]
}

// count returns the numbers of pairs: the possible ones, the tried ones, and those by result.
func (f *FirstFault) count() (possible, tried int, by map[invariant.Result]int) {
	by = map[invariant.Result]int{}
	for _, w := range f.Writes {
		possible += w.Possible
		for r, n := range w.Results {
			by[r] += n
			tried += n
		}
	}
	return possible, tried, by
}

// listPairs writes the coverage of pairs, by first fault.
func (s *Sweep) listPairs(w io.Writer) error {
	if len(s.Pairs) == 0 {
		return nil
	}
	ran, recovered, writes, sum := 0, 0, 0, FirstFault{}
	aligned := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	const columns = 8
	fmt.Fprintf(aligned, "\n| first fault\t| alone\t| writes of the recovery\t| pairs\t| tried\t| held\t| broken\t| inconclusive\t| void\t|\n|---\t%s|\n", strings.Repeat("|---\t", columns))
	for _, f := range s.Pairs {
		if f.Result == "" {
			continue
		}
		ran++
		if f.Result == invariant.Held {
			recovered++
		}
		possible, tried, by := f.count()
		writes += len(f.Writes)
		sum.Writes = append(sum.Writes, f.Writes...)
		fmt.Fprintf(aligned, "| %s\t| %s\t| %d\t| %d\t| %d\t", f.Plan, f.Result, len(f.Writes), possible, tried)
		for _, r := range results {
			fmt.Fprintf(aligned, "| %d\t", by[r])
		}
		fmt.Fprintln(aligned, "|")
	}
	if err := aligned.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	possible, tried, by := sum.count()
	var parts []string
	for _, r := range results {
		parts = append(parts, fmt.Sprintf("%d %s", by[r], r))
	}
	_, err := fmt.Fprintf(w, "\nTwo faults: %d of %d first faults were run, and %d held, with %d writes in their recoveries; of the %d pairs from these %d were tried: %s\n",
		ran, len(s.Pairs), recovered, writes, possible, tried, strings.Join(parts, ", "))
	return err
}
