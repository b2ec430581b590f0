// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"leasehold.dev/test/harness/history"
)

// judgeLike compares checkpoints with earlier ones of the same run that must have the same state.
// Fields with a random value differ between the runs at the earlier checkpoint, and are ignored.
func (b *judgement) judgeLike() {
	for _, m := range b.History.Checkpoints {
		i := slices.IndexFunc(b.History.Checkpoints, func(o history.Checkpoint) bool { return o.Name == m.Like })
		if m.Like == "" || !m.AtRest() || i < 0 {
			continue
		}
		like := b.History.Checkpoints[i]
		earlier := stateIn(b.History, b.index, b.comparison, like, comparison.concerns)
		all := []state{earlier}
		for _, h := range b.References {
			if s := stateAt(h, b.comparison, m.Like, comparison.concerns); s != nil {
				all = append(all, s)
			}
		}
		// Without convergence, as after a step that the API server rejected, its state is no measure of later ones.
		if !like.Converged {
			b.addDoubt("at %q the state is not comparable with %q, at which the desired state was not reached", m.Name, m.Like)
			continue
		}
		rejected := slices.DeleteFunc(b.rejectedBefore(m),
			func(r history.Rejection) bool { return r.At.Before(like.Ended) })
		if len(rejected) > 0 {
			if slices.ContainsFunc(rejected, history.Rejection.Unexpected) {
				b.addDoubt("at %q the state is not comparable with %q: %s", m.Name, m.Like, rejected[0])
			}
			continue
		}
		later := stateIn(b.History, b.index, b.comparison, m, comparison.concerns)
		b.checked += max(1, len(later))
		for _, name := range sets.List(sets.KeySet(earlier).Union(sets.KeySet(later))) {
			b.judgeObjectLike(m, name, later, all)
		}
	}
}

func (b *judgement) judgeObjectLike(m history.Checkpoint, name string, later state, all []state) {
	have, there := later[name]
	had, before := all[0][name]
	switch {
	case !there:
		b.addViolation("at %q %s does not exist, as it did at %q", m.Name, name, m.Like).checkpoint(m).object(had.object)
	case !before:
		b.addViolation("at %q %s (%s) exists, and did not at %q", m.Name, name, have.where, m.Like).checkpoint(m).
			object(have.object).refer(revisionOf(have.revision)...)
	default:
		for _, path := range sets.List(sets.KeySet(had.fields).Union(sets.KeySet(have.fields))) {
			text := changed(path, name, have, all)
			if text == "" {
				continue
			}
			b.addViolation("at %q %s (%s): %s, though all is desired as at %q", m.Name, name, have.where, text, m.Like).
				checkpoint(m).object(have.object).refer(revisionOf(have.revision)...)
		}
	}
}

// changed describes how a field differs from the one at an earlier checkpoint; "" if it does not, or
// if its value has no meaning.
func changed(path, name string, have entry, all []state) string {
	was, before, steady := steadyField(name, path, all)
	value, there := have.fields[path]
	if value == was && there == before || !steady || recounts(path, was, value) {
		return ""
	}
	return fmt.Sprintf("%s is %s, and was %s", path[1:], orAbsent(value, there), orAbsent(was, before))
}

// recounts reports whether a field depends on what happened before: reason and message of a condition, or
// a number in the status or in an annotation that has grown.
func recounts(path, was, value string) bool {
	if strings.HasPrefix(path, ".status.") && (strings.HasSuffix(path, ".message") || strings.HasSuffix(path, ".reason")) {
		return true
	}
	if !strings.HasPrefix(path, ".status.") && !strings.HasPrefix(path, ".metadata.annotations.") {
		return false
	}
	first, err := strconv.ParseInt(was, 10, 64)
	if err != nil {
		return false
	}
	second, err := strconv.ParseInt(value, 10, 64)
	return err == nil && second > first
}
