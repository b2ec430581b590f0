package invariant

import (
	"fmt"
	"slices"
	"strings"

	"leasehold.dev/test/harness/history"
)

// Result is what became of a promise.
type Result string

const (
	// Held is that it was put to the test and kept.
	Held Result = "held"
	// Broken is that it was not kept, at the places that Breaches name.
	Broken Result = "broken"
	// Inconclusive is that the history does not say.
	Inconclusive Result = "inconclusive"
	// Void is of a run only: what was to go wrong did not.
	Void Result = "void"
)

// Verdict is the answer to one promise.
type Verdict struct {
	Invariant string `json:"invariant"`
	Promise   string `json:"promise"`
	Result    Result `json:"result"`
	// Checked is how many things were looked at.
	Checked int `json:"checked"`
	// Breaches say where the promise was broken.
	Breaches []string `json:"breaches,omitempty"`
	// Doubts say what is missing or cannot be told.
	Doubts []string `json:"doubts,omitempty"`
}

// String is the verdict for people: the promise, and where it was broken.
func (v Verdict) String() string {
	lines := []string{fmt.Sprintf("%s %s (%d checked): %q", v.Invariant, v.Result, v.Checked, v.Promise)}
	for _, breach := range v.Breaches {
		lines = append(lines, "    broken: "+breach)
	}
	for _, doubt := range v.Doubts {
		lines = append(lines, "    in doubt: "+doubt)
	}
	return strings.Join(lines, "\n")
}

// Case is what is judged.
type Case struct {
	History *history.History
	// References are clean runs of the same scenario. Two or more show what differs
	// from run to run by itself.
	References []*history.History
	Operator   Operator
}

// outside is the case without what is in hostile namespaces.
func (c Case) outside() Case {
	if len(c.History.Hostile) == 0 {
		return c
	}
	c.History = c.History.Outside(c.History.Hostile)
	references := make([]*history.History, len(c.References))
	for i, h := range c.References {
		references[i] = h.Outside(h.Hostile)
	}
	c.References = references
	return c
}

// Invariant is one promise.
type Invariant struct {
	// ID is its number, such as O5, Name a word for tables.
	ID, Name string
	// Promise is what is promised, in one sentence.
	Promise string
	judge   func(*bench)
	// everywhere: what is in hostile namespaces is judged too. It costs others
	// something only where O19 sees it, and how it fares is the attacker's affair.
	everywhere bool
}

// Judge judges a case. It changes nothing in it.
func (i Invariant) Judge(c Case) Verdict {
	if !i.everywhere {
		c = c.outside()
	}
	b := &bench{Case: c, index: c.History.Index()}
	i.judge(b)
	if b.checked == 0 {
		b.doubt("nothing happened that this promise is about")
	}
	for _, f := range c.History.Void() {
		b.doubt("the fault %s did not happen, so the run proves nothing", f.Name)
	}
	v := Verdict{Invariant: i.ID, Promise: i.Promise, Result: Held, Checked: b.checked, Breaches: b.breaches, Doubts: b.doubts}
	switch {
	case len(v.Breaches) > 0:
		v.Result = Broken
	case len(v.Doubts) > 0:
		v.Result = Inconclusive
	}
	return v
}

// All returns the invariants, by number.
func All() []Invariant {
	return []Invariant{
		EndState, Lifecycle, Settled, Quiet, SingleWriter, Preconditions, Ownership, FinalizerOrder, OneExternal,
		HonestStatus, Progress, EventBudget, Rights, HonestReadiness, HonestLiveness, Shutdown, Resources,
		ExternalByLeader, Isolation, Decisions, Takeover,
	}
}

// Judge judges a case by all invariants.
func Judge(c Case) []Verdict {
	var verdicts []Verdict
	for _, i := range All() {
		verdicts = append(verdicts, i.Judge(c))
	}
	return verdicts
}

// Sum says what became of a run as a whole. A promise that is broken is broken,
// whatever was to go wrong; one that could not be judged counts if it is among
// those that must be. After an attack, what it may cost others is among those.
func Sum(h *history.History, verdicts []Verdict, must []string) Result {
	if slices.ContainsFunc(h.Faults, func(f history.Fault) bool { return f.Attack }) {
		must = append(slices.Clone(must), Isolation.ID)
	}
	result := Held
	if len(h.Void()) > 0 {
		result = Void
	}
	for _, v := range verdicts {
		switch {
		case v.Result == Broken:
			return Broken
		case v.Result == Inconclusive && result == Held && slices.Contains(must, v.Invariant):
			result = Inconclusive
		}
	}
	return result
}

// bench is where one case is judged.
type bench struct {
	Case
	index    *history.Index
	checked  int
	breaches []string
	doubts   []string
}

func (b *bench) broken(format string, args ...any) {
	b.breaches = append(b.breaches, fmt.Sprintf(format, args...))
}

func (b *bench) doubt(format string, args ...any) {
	b.doubts = append(b.doubts, fmt.Sprintf(format, args...))
}

// needs reports whether one of the sources was listening, and says so if not.
func (b *bench) needs(anyOf ...history.Source) bool {
	if b.History.Has(anyOf...) {
		return true
	}
	b.doubt("nobody recorded %v", anyOf)
	return false
}
