package costs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/performance/counts"
	"leasehold.dev/test/performance/gate/row"
)

// round is what was measured once, by the name of the phase.
type round map[string]counts.Phase

// comparison is what was found.
type comparison struct {
	rows []row.Row
	// ratios are those of passes and times, by row.
	ratios map[string]float64
	// slow: a pass or a time is worse, which may be the machine's doing.
	slow bool
}

// compare is pure: tolerance says by how much what depends on the machine may be
// more. There is at least one round of each.
func compare(base, head []round, tolerance func(id string) float64) comparison {
	c := comparison{ratios: map[string]float64{}}
	for _, name := range phases(base, head) {
		if !everywhere(base, name) || !everywhere(head, name) {
			c.rows = append(c.rows, partial(base, head, name))
			continue
		}
		counted := func(p counts.Phase) map[string]int { return p.Counts }
		for _, key := range keys(base, head, name, counted) {
			c.rows = append(c.rows, strict("counts/"+name+"/"+key, each(base, name, counted, key), each(head, name, counted, key)))
		}
		timed := func(p counts.Phase) map[string]int { return p.Timed }
		for _, key := range keys(base, head, name, timed) {
			b, h := slices.Min(each(base, name, timed, key)), slices.Min(each(head, name, timed, key))
			// One is added to both so that the first of something is not infinitely many.
			c.rows = append(c.rows, c.loose("counts/"+name+"/"+key, float64(h+1)/float64(b+1), fmt.Sprint(b), fmt.Sprint(h), tolerance))
		}
		b, h := fastest(base, name), fastest(head, name)
		c.rows = append(c.rows, c.loose("times/"+name, h.Seconds()/b.Seconds(), text(b), text(h), tolerance))
	}
	return c
}

// strict compares what is the same each time. What is not is somebody's mistake, and
// is never averaged away.
func strict(id string, base, head []int) row.Row {
	r := row.Row{ID: id, Base: list(base), Head: list(head), Verdict: row.Same}
	b, h := base[0], head[0]
	switch stableBase, stableHead := stable(base), stable(head); {
	case !stableBase && stableHead:
		r.Verdict, r.Reason = row.Better, "it was not the same in each round, and now is"
	case !stableBase:
		r.Verdict, r.Reason = row.Unclear, "it is not the same in each round, at the base neither: find out what it depends on"
	case !stableHead:
		r.Verdict, r.Reason = row.Worse, "it is not the same in each round any more: find out what it depends on"
	case h > b:
		r.Verdict, r.Reason = row.Worse, fmt.Sprintf("%d more each time; it is counted at the API server, so this is no chance", h-b)
	case h < b:
		r.Verdict, r.Reason = row.Better, fmt.Sprintf("%d fewer each time", b-h)
	}
	return r
}

// loose compares what depends on the machine, by the ratio of the best of all rounds.
func (c *comparison) loose(id string, ratio float64, base, head string, tolerance func(string) float64) row.Row {
	bound := tolerance(id)
	c.ratios[id] = ratio
	r := row.Row{ID: id, Base: base, Head: head, Verdict: row.Same}
	switch {
	case ratio > 1+bound:
		c.slow = true
		r.Verdict = row.Worse
		r.Reason = fmt.Sprintf("×%.2f the base in the best of the rounds, where ×%.2f is tolerated", ratio, 1+bound)
	case ratio < 1/(1+bound):
		r.Verdict, r.Reason = row.Better, fmt.Sprintf("×%.2f the base", ratio)
	}
	return r
}

// partial is the row of a phase that one side has not gone through each time.
func partial(base, head []round, name string) row.Row {
	r := row.Row{ID: "counts/" + name, Base: had(base, name), Head: had(head, name), Verdict: row.Unclear, Reason: "the phase is missing in some rounds"}
	if everywhere(head, name) && !anywhere(base, name) {
		r.Verdict, r.Reason = row.New, "the base does not come so far"
	}
	if everywhere(base, name) && !anywhere(head, name) {
		r.Verdict, r.Reason = row.Worse, "the head does not come so far"
	}
	return r
}

// phases are the names of all phases, sorted.
func phases(base, head []round) []string {
	all := map[string]bool{}
	for _, r := range slices.Concat(base, head) {
		for name := range r {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// keys are what was counted in a phase by either, sorted.
func keys(base, head []round, phase string, of func(counts.Phase) map[string]int) []string {
	all := map[string]bool{}
	for _, r := range slices.Concat(base, head) {
		for key := range of(r[phase]) {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// each is one count in all rounds; what is not there is zero.
func each(rounds []round, phase string, of func(counts.Phase) map[string]int, key string) []int {
	var all []int
	for _, r := range rounds {
		all = append(all, of(r[phase])[key])
	}
	return all
}

func fastest(rounds []round, phase string) time.Duration {
	least := rounds[0][phase].Took
	for _, r := range rounds {
		least = min(least, r[phase].Took)
	}
	return max(least, time.Microsecond)
}

func everywhere(rounds []round, phase string) bool {
	return !slices.ContainsFunc(rounds, func(r round) bool { _, ok := r[phase]; return !ok })
}

func anywhere(rounds []round, phase string) bool {
	return slices.ContainsFunc(rounds, func(r round) bool { _, ok := r[phase]; return ok })
}

func had(rounds []round, phase string) string {
	n := 0
	for _, r := range rounds {
		if _, ok := r[phase]; ok {
			n++
		}
	}
	return fmt.Sprintf("in %d of %d rounds", n, len(rounds))
}

func stable(all []int) bool { return slices.Min(all) == slices.Max(all) }

// list is one number where all are the same, and all of them where they are not.
func list(all []int) string {
	if stable(all) {
		return fmt.Sprint(all[0])
	}
	var texts []string
	for _, n := range all {
		texts = append(texts, fmt.Sprint(n))
	}
	return strings.Join(texts, ", ")
}

func text(d time.Duration) string { return d.Round(time.Millisecond).String() }
