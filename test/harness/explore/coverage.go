package explore

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// maxChanges is the number of changes in the longest sequence.
const maxChanges = 3

// Sequences returns sequences of one to three changes in which each change occurs once. Of those
// with one change, half have a crash. The seed and the ID of a change determine its position and
// whether it begins a sequence, so an additional change alters only the adjacent sequences.
func Sequences(changes []Change, seed uint64) []Sequence {
	order := slices.SortedFunc(slices.Values(changes), func(a, b Change) int {
		return cmp.Or(cmp.Compare(draws(seed, "order", a).Uint64(), draws(seed, "order", b).Uint64()),
			cmp.Compare(a.ID(), b.ID()))
	})
	var all []Sequence
	for len(order) > 0 {
		n := 1
		for n < min(maxChanges, len(order)) && draws(seed, "begins", order[n]).IntN(2) == 0 {
			n++
		}
		// A change that the schema forbids makes no operator write, so a crash cannot happen.
		crash := n == 1 && !order[0].Invalid && draws(seed, "crash", order[0]).IntN(2) == 0
		all = append(all, Sequence{Changes: order[:n:n], Crash: crash})
		order = order[n:]
	}
	return all
}

// draws returns the random numbers of a change for a purpose.
func draws(seed uint64, purpose string, c Change) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(purpose + " " + c.ID())) // a hash never fails
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// Coverage has the tried and the possible changes.
type Coverage struct {
	Kind                           string
	Fields, AllFields              int
	Changes, AllChanges            int
	Ready, NotReady, RejectedCount int
	// Untried are the fields without a tried change.
	Untried []string
	// ByKind has, for each kind of change, how many were made.
	ByKind map[string]int
}

// String is one line.
func (c Coverage) String() string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(c.ByKind)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, c.ByKind[kind]))
	}
	line := fmt.Sprintf("%s: %d of %d fields, %d of %d changes: %d became ready, %d did not, %d were rejected (%s)",
		c.Kind, c.Fields, c.AllFields, c.Changes, c.AllChanges, c.Ready, c.NotReady, c.RejectedCount,
		strings.Join(kinds, ", "))
	if len(c.Untried) > 0 {
		line += "; not tried: " + strings.Join(c.Untried, ", ")
	}
	return line
}

// Coverage returns what Check has tried so far.
func (e *Explorer) Coverage() Coverage {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := Coverage{Kind: e.Kind, ByKind: map[string]int{}}
	fields := map[string]bool{}
	for _, change := range e.Changes {
		fields[change.Field] = fields[change.Field] || e.outcome[change.ID()] != ""
		c.AllChanges++
		switch e.outcome[change.ID()] {
		case "ready":
			c.Ready++
		case "not ready":
			c.NotReady++
		case "rejected":
			c.RejectedCount++
		default:
			continue
		}
		c.Changes++
		kind := change.Kind
		if strings.HasPrefix(kind, "enum-") {
			kind = "enum"
		}
		c.ByKind[kind]++
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		c.AllFields++
		if fields[field] {
			c.Fields++
		} else {
			c.Untried = append(c.Untried, field)
		}
	}
	return c
}
