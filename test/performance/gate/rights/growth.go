package rights

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/component-helpers/auth/rbac/validation"

	"leasehold.dev/test/performance/gate/row"
)

const (
	reasonMore = "nothing of base covers it: take it out again, or say in the change what needs it"
	reasonLess = "what is not needed is not granted any more"
)

// compareHolders makes a row of each right that somebody has more or less, and
// one of each holder whose rights are the same.
func compareHolders(base, head map[string]holder) []row.Row {
	var rows []row.Row
	for _, who := range slices.Sorted(maps.Keys(head)) {
		old, known := base[who]
		now := head[who]
		if !known {
			rows = append(rows, newHolder(who, now))
			continue
		}
		rows = append(rows, compareHolder(who, old, now)...)
	}
	for _, who := range slices.Sorted(maps.Keys(base)) {
		if _, still := head[who]; !still {
			rows = append(rows, row.Row{ID: prefix + who, Base: count(base[who]), Verdict: row.Gone, Reason: "nobody has them any more"})
		}
	}
	return rows
}

func newHolder(who string, h holder) row.Row {
	r := row.Row{ID: prefix + who, Head: count(h), Verdict: row.Worse,
		Reason: "somebody else has rights now: bind nobody more than before, or say in the change what needs it"}
	if h.latent {
		r.Verdict, r.Reason = row.New, "nobody has it before an administrator binds it"
	}
	return r
}

func compareHolder(who string, base, head holder) []row.Row {
	var rows []row.Row
	add := func(what, before, after string, v row.Verdict, reason string) {
		rows = append(rows, row.Row{ID: prefix + who + ": " + what, Base: before, Head: after, Verdict: v, Reason: reason})
	}
	for _, what := range uncovered(base, head) {
		add(what, "no", "yes", row.Worse, reasonMore)
	}
	for _, what := range uncovered(head, base) {
		add(what, "yes", "no", row.Better, reasonLess)
	}
	for _, what := range slices.Sorted(maps.Keys(head.unknown)) {
		if !base.unknown[what] {
			add("all of "+what, "no", "yes", row.Worse, "what it allows is not known here: bind a role that is shipped, or say in the change what needs it")
		}
	}
	for _, what := range slices.Sorted(maps.Keys(base.unknown)) {
		if !head.unknown[what] {
			add("all of "+what, "yes", "no", row.Better, reasonLess)
		}
	}
	if len(rows) == 0 {
		return []row.Row{{ID: prefix + who, Base: count(base), Head: count(head), Verdict: row.Same}}
	}
	return rows
}

// uncovered are the rights of one, in words, that the other does not have. What
// holds everywhere holds in each namespace.
func uncovered(owner, asker holder) []string {
	var all []string
	for _, namespace := range slices.Sorted(maps.Keys(asker.rules)) {
		owned := owner.rules[""]
		if namespace != "" {
			owned = slices.Concat(owned, owner.rules[namespace])
		}
		_, rest := validation.Covers(owned, asker.rules[namespace])
		for _, rule := range rest {
			all = append(all, right(rule, namespace))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func count(h holder) string {
	all := map[string]bool{}
	for namespace, rules := range h.rules {
		for _, rule := range rules {
			for _, one := range validation.BreakdownRule(rule) {
				all[right(one, namespace)] = true
			}
		}
	}
	return fmt.Sprintf("%d rights", len(all)+len(h.unknown))
}
