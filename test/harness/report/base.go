// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"leasehold.dev/test/harness/invariant"
)

// comparisonFile compares a sweep with its base, for a pull request.
const comparisonFile = "pull-request.md"

// maxChanges bounds the rows of the comparison, so that it fits into a comment.
const maxChanges = 40

// RequestChange is a difference between the clean runs of two programs: all runs of one have more requests than any run
// of the other.
type RequestChange struct {
	Scenario string
	invariant.RequestCount
}

// Changes returns the differences in the requests of clean runs, by path or else by resource. A Count is positive if
// this sweep has more. Requests whose number differs between clean runs of one program alone are left out.
func (s *Sweep) Changes(base *Sweep, byPath bool) []RequestChange {
	sum := func(clean []invariant.Outcome) (counts map[RequestChange][]int, runs map[string]int) {
		counts, runs = map[RequestChange][]int{}, map[string]int{}
		for _, o := range clean {
			runs[o.Scenario]++
			sums := map[RequestChange]int{}
			for _, r := range o.Requests {
				n := r.Count
				r.Count = 0
				if !byPath {
					r.Path = ""
				}
				sums[RequestChange{o.Scenario, r}] += n
			}
			for key, n := range sums {
				counts[key] = append(counts[key], n)
			}
		}
		return counts, runs
	}
	before, of := sum(base.Clean)
	now, in := sum(s.Clean)
	spread := func(counts []int, runs int) (least, most int) {
		counts = append(counts, make([]int, max(1, runs)-len(counts))...) // runs without such a request
		return slices.Min(counts), slices.Max(counts)
	}
	var all []RequestChange
	keys := maps.Clone(before)
	maps.Copy(keys, now)
	for key := range keys {
		least, most := spread(now[key], in[key.Scenario])
		leastBefore, mostBefore := spread(before[key], of[key.Scenario])
		key.Count = max(0, least-mostBefore) - max(0, leastBefore-most)
		if in[key.Scenario] > 0 && key.Count != 0 {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b RequestChange) int {
		return cmp.Or(cmp.Compare(a.Scenario, b.Scenario), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	return all
}

// NewFindings returns the findings that break an invariant which no finding of the base with the same cause breaks.
func (s *Sweep) NewFindings(base *Sweep) []SweepFinding {
	known := base.Findings()
	return slices.DeleteFunc(s.Findings(), func(f SweepFinding) bool {
		return !slices.ContainsFunc(f.Invariants, func(invariant string) bool {
			return !slices.ContainsFunc(known, func(k SweepFinding) bool {
				return k.SameCause(f.Finding) && slices.Contains(k.Invariants, invariant)
			})
		})
	})
}

// LoadBase reads the report of the base's program.
func LoadBase(dir string) (*Sweep, error) {
	s, err := LoadSweep(dir)
	if err == nil && (cmp.Or(s.Shard, s.Undone) != "" || s.Left > 0) {
		return nil, fmt.Errorf("loading a sweep from %s: it has not all plans; run the base without --budget, and join the "+
			"reports of shards with `prove merge`", dir)
	}
	if err == nil && !slices.ContainsFunc(s.Clean, func(o invariant.Outcome) bool { return len(o.Requests) > 0 }) {
		err = fmt.Errorf("loading a sweep from %s: it does not count requests; run the base with this version of prove", dir)
	}
	return s, err
}

// SaveComparison writes the comparison with the base to w and into dir.
func (s *Sweep) SaveComparison(w io.Writer, base *Sweep, dir string) error {
	err := create(filepath.Join(dir, comparisonFile), func(file io.Writer) error {
		return s.writeComparison(io.MultiWriter(file, w), base)
	})
	if err != nil {
		return fmt.Errorf("writing the comparison with the base: %w", err)
	}
	return nil
}

func (s *Sweep) writeComparison(w io.Writer, base *Sweep) error {
	changes, found := s.Changes(base, false), s.NewFindings(base)
	fmt.Fprintf(w, "\n**prove, compared with the base**: %s, %s",
		counted(len(found), "new finding"), counted(len(s.Outcomes), "plan"))
	fmt.Fprintf(w, "%s\n\nRequests of clean runs: %s\n", s.leftOut(), counted(len(changes), "change"))
	var rows [][]string
	for _, c := range changes[:min(maxChanges, len(changes))] {
		rows = append(rows, []string{c.Scenario, c.Step, fmt.Sprintf("%+d %s of %s", c.Count, c.Method, c.Resource)})
	}
	err := table(w, []string{"scenario", "until checkpoint", "change"}, rows)
	if more := len(changes) - len(rows); more > 0 {
		fmt.Fprintf(w, "\nand %d more\n", more)
	}
	listFindings(w, "New findings", found)
	s.listUnproven(w)
	return err
}
