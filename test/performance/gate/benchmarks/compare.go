package benchmarks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"leasehold.dev/test/performance/gate/row"
)

// moreBytes is by how much a call may allocate more bytes: where maps grow depends on
// their seeds, and the sum of it on chance.
const moreBytes = 1.01

// comparison is what was found: the rows, and the ratios of the times by row.
type comparison struct {
	rows   []row.Row
	ratios map[string]float64
}

// compare is pure: tolerance says by how much the time of a row may be longer.
func compare(best pair, tolerance func(id string) float64) comparison {
	c := comparison{ratios: map[string]float64{}}
	sizes := map[string][]key{}
	for _, k := range slices.SortedFunc(maps.Keys(best.head), byName) {
		base, known := best.base[k]
		head, id := best.head[k], "benchmarks/"+k.String()
		if !known {
			c.rows = append(c.rows, row.Row{ID: id + "/allocations", Head: allocations(head), Verdict: row.New, Reason: "the base has no such benchmark"})
			continue
		}
		sizes[k.name] = append(sizes[k.name], k)
		c.rows = append(c.rows, allocs(id+"/allocations", base, head), memory(id+"/bytes", base, head))
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		c.times(best, "benchmarks/"+name, sizes[name], tolerance)
	}
	return c
}

func byName(a, b key) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.size, b.size)) }

func allocations(f figures) string { return fmt.Sprintf("%d allocs/op", f.allocs) }

// allocs is strict: what is counted is the same each time.
func allocs(id string, base, head figures) row.Row {
	r := row.Row{ID: id, Base: allocations(base), Head: allocations(head), Verdict: row.Same}
	switch {
	case head.allocs > base.allocs:
		r.Verdict, r.Reason = row.Worse, fmt.Sprintf("%d more each time; allocations are counted, so this is no chance", head.allocs-base.allocs)
	case head.allocs < base.allocs:
		r.Verdict, r.Reason = row.Better, fmt.Sprintf("%d fewer each time", base.allocs-head.allocs)
	}
	return r
}

func memory(id string, base, head figures) row.Row {
	r := row.Row{ID: id, Base: fmt.Sprintf("%d B/op", base.bytes), Head: fmt.Sprintf("%d B/op", head.bytes), Verdict: row.Same}
	switch {
	case float64(head.bytes) > float64(base.bytes)*moreBytes:
		r.Verdict, r.Reason = row.Worse, fmt.Sprintf("%d bytes more each time", head.bytes-base.bytes)
	case float64(base.bytes) > float64(head.bytes)*moreBytes:
		r.Verdict, r.Reason = row.Better, fmt.Sprintf("%d bytes fewer each time", base.bytes-head.bytes)
	}
	return r
}

// times compares the time at the largest size, and how it grew from the one before.
func (c *comparison) times(best pair, id string, sizes []key, tolerance func(string) float64) {
	large := sizes[len(sizes)-1]
	b, h := best.base[large].nanoseconds, best.head[large].nanoseconds
	c.rows = append(c.rows, c.time(id+"/time", b, h, tolerance, took,
		fmt.Sprintf("one call%s takes longer", atSize(large)), ""))
	if len(sizes) < 2 {
		return
	}
	small := sizes[len(sizes)-2]
	factor := func(ratio float64) string {
		return fmt.Sprintf("×%.1f for ×%.1f", ratio, float64(large.size)/float64(small.size))
	}
	c.rows = append(c.rows, c.time(id+"/growth", b/best.base[small].nanoseconds, h/best.head[small].nanoseconds, tolerance, factor,
		fmt.Sprintf("from n=%d to n=%d the time grows faster", small.size, large.size), ": look for a loop in a loop"))
}

// time is a row of something that takes time.
func (c *comparison) time(id string, base, head float64, tolerance func(string) float64, text func(float64) string, what, advice string) row.Row {
	ratio, bound := head/base, tolerance(id)
	c.ratios[id] = ratio
	r := row.Row{ID: id, Base: text(base), Head: text(head), Verdict: row.Same}
	switch {
	case ratio > 1+bound:
		r.Verdict = row.Worse
		r.Reason = fmt.Sprintf("%s: ×%.2f the base, where ×%.2f is tolerated%s", what, ratio, 1+bound, advice)
	case ratio < 1/(1+bound):
		r.Verdict, r.Reason = row.Better, fmt.Sprintf("×%.2f the base", ratio)
	}
	return r
}

func took(nanoseconds float64) string {
	return time.Duration(nanoseconds).Round(10 * time.Nanosecond).String()
}

func atSize(k key) string {
	if k.size == 0 {
		return ""
	}
	return fmt.Sprintf(" at n=%d", k.size)
}
