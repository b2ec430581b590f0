// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"slices"
	"strings"

	"leasehold.dev/test/harness/history"
)

// Result is the judgement of a promise or a run.
type Result string

const (
	// Held means that the promise was tested and kept.
	Held Result = "held"
	// Broken means that the promise has violations.
	Broken Result = "broken"
	// Inconclusive means that the history does not allow a judgement.
	Inconclusive Result = "inconclusive"
	// Void is the result of a run whose fault did not happen.
	Void Result = "void"
	// NotApplicable is the result of a run whose fault cannot happen to the operator.
	NotApplicable Result = "not applicable"
)

// Passes reports whether a run with this result needs no attention.
func (r Result) Passes() bool { return r == Held || r == NotApplicable }

// Verdict is the judgement of one promise.
type Verdict struct {
	Invariant string `json:"invariant"`
	Promise   string `json:"promise"`
	Result    Result `json:"result"`
	// Checked counts the things that were judged.
	Checked int `json:"checked"`
	// Violations are the places where the promise was broken.
	Violations []Violation `json:"violations,omitempty"`
	// Known are violations that clean runs have as well, and which those report.
	Known []Violation `json:"known,omitempty"`
	// Excepted is why the result does not count; "" if it does.
	Excepted string `json:"excepted,omitempty"`
	// Doubts describe missing records and unknown orders.
	Doubts []string `json:"doubts,omitempty"`
}

// String describes the verdict with the first violation of each object, and its doubts.
func (v Verdict) String() string {
	v.Violations, v.Known = FirstOfEach(v.Violations), FirstOfEach(v.Known)
	return v.Details()
}

// Details describes the verdict with all of its violations.
func (v Verdict) Details() string {
	result := string(v.Result)
	if v.Excepted != "" {
		result += fmt.Sprintf(", excepted (%s)", v.Excepted)
	}
	lines := []string{fmt.Sprintf("%s %s (%d checked): %q", v.Invariant, result, v.Checked, v.Promise)}
	for _, violation := range v.Violations {
		lines = append(lines, "    broken: "+violation.Message)
	}
	for _, violation := range v.Known {
		lines = append(lines, "    in clean runs, too: "+violation.Message)
	}
	for _, doubt := range v.Doubts {
		lines = append(lines, "    inconclusive: "+doubt)
	}
	return strings.Join(lines, "\n")
}

// Case is a run with the input of its judgement.
type Case struct {
	History *history.History
	// References are clean runs of the same scenario. Two or more show incidental differences.
	References []*history.History
	Contract   Contract
}

// withoutHostile returns the case without hostile namespaces.
func (c Case) withoutHostile() Case {
	if len(c.History.Hostile) == 0 {
		return c
	}
	c.History = c.History.Excluding(c.History.Hostile)
	references := make([]*history.History, len(c.References))
	for i, h := range c.References {
		references[i] = h.Excluding(h.Hostile)
	}
	c.References = references
	return c
}

// Invariant is one promise.
type Invariant struct {
	// Name identifies the invariant in files and reports, such as single-writer.
	Name string
	// Promise is one sentence.
	Promise string
	// Bug is the address of a bug that it would have shown, in another project.
	Bug string
	// needs are the sources without which nothing is judged.
	needs []history.Source
	judge func(*judgement)
	// inHostile includes hostile namespaces. Elsewhere, objects of an attacker are not judged; tenant-isolation
	// judges what an attack costs others.
	inHostile bool
}

// Judge judges a case. It does not change it.
func (i Invariant) Judge(c Case) Verdict {
	b := i.evaluate(c)
	v := Verdict{Invariant: i.Name, Promise: i.Promise, Result: Held, Checked: b.checked, Violations: b.violations,
		Doubts: b.doubts}
	if len(v.Violations) > 0 {
		v.Violations, v.Known = i.separate(c, b.violations)
	}
	switch {
	case len(v.Violations) > 0:
		v.Result = Broken
	case len(v.Doubts) > 0:
		v.Result = Inconclusive
	}
	for _, e := range c.Contract.Except {
		if e.Invariant == i.Name {
			v.Excepted = e.Reason
		}
	}
	return v
}

// evaluate collects violations and doubts.
func (i Invariant) evaluate(c Case) *judgement {
	if !i.inHostile {
		c = c.withoutHostile()
	}
	b := &judgement{Case: c, index: c.History.Index(), comparison: c.comparison()}
	if !slices.ContainsFunc(i.needs, func(s history.Source) bool { return !b.hasSource(s) }) {
		i.judge(b)
	}
	if b.checked == 0 {
		b.addDoubt("the run has nothing that this promise applies to")
	}
	for _, f := range c.History.Void() {
		b.addDoubt("the fault %s was not injected, so the run proves nothing", f.Name)
	}
	if len(b.violations) > 0 {
		b.nameObjects()
		names := Names(c.History)
		for n := range b.violations {
			b.violations[n].sign(names)
		}
	}
	return b
}

// separate returns the violations of the run, and those that a clean run reports.
func (i Invariant) separate(c Case, violations []Violation) (own, known []Violation) {
	reported := map[string]bool{}
	for _, h := range c.reporting() {
		clean := c
		clean.History = h
		for _, v := range i.evaluate(clean).violations {
			reported[v.Signature] = true
		}
	}
	for _, v := range violations {
		if reported[v.Signature] {
			known = append(known, v)
		} else {
			own = append(own, v)
		}
	}
	return own, known
}

// reporting returns the clean runs that report a violation before this run does: all of them, or
// those before it if it is a clean run itself. So each violation is reported once.
func (c Case) reporting() []*history.History {
	n := slices.IndexFunc(c.References, func(h *history.History) bool {
		return h == c.History || !h.Began.IsZero() && h.Began.Equal(c.History.Began)
	})
	if n < 0 {
		return c.References
	}
	return c.References[:n]
}

// All returns the invariants in the order of tables.
func All() []Invariant {
	return []Invariant{
		SingleLifecycle, EndState, Convergence, Quiescence, SingleWriter, Preconditions, Ownership, FinalizerOrder,
		ExternalOwnership, TruthfulStatus, SufficientRights, TruthfulReadiness, CleanShutdown, LeaderOnlyCalls,
		TenantIsolation, ExpectedRights,
	}
}

// Order compares the names of two invariants by their order in tables, for package slices.
func Order(a, b string) int {
	at := func(name string) int {
		return slices.IndexFunc(All(), func(i Invariant) bool { return i.Name == name })
	}
	return at(a) - at(b)
}

// Judge judges a case by all invariants.
func Judge(c Case) []Verdict {
	var verdicts []Verdict
	for _, i := range All() {
		verdicts = append(verdicts, i.Judge(c))
	}
	return verdicts
}

// Necessary returns the names of the invariants without which a run is inconclusive: must, after an
// attack tenant-isolation, and after a rejected step end-state and convergence.
func Necessary(h *history.History, must []string) []string {
	must = slices.Clone(must)
	if slices.ContainsFunc(h.Faults, func(f history.FaultRecord) bool { return f.Attack }) {
		must = append(must, TenantIsolation.Name)
	}
	if slices.ContainsFunc(h.Rejections, history.Rejection.Unexpected) {
		must = append(must, EndState.Name, Convergence.Name)
	}
	return must
}

// Sum returns the result of a run. A run without its fault is void, whatever else it shows: clean
// runs report findings without a fault. Excepted invariants do not count. A broken invariant
// outweighs an inconclusive one, which counts if it is necessary.
func Sum(h *history.History, verdicts []Verdict, must []string) Result {
	if void := h.Void(); len(void) > 0 {
		if slices.ContainsFunc(void, func(f history.FaultRecord) bool { return !f.NotApplicable }) {
			return Void
		}
		return NotApplicable
	}
	must = Necessary(h, must)
	result := Held
	for _, v := range verdicts {
		switch {
		case v.Excepted != "":
		case v.Result == Broken:
			return Broken
		case v.Result == Inconclusive && result == Held && slices.Contains(must, v.Invariant):
			result = Inconclusive
		}
	}
	return result
}

// judgement collects violations and doubts of one invariant in one case.
type judgement struct {
	Case
	index      *history.Index
	comparison comparison
	checked    int
	violations []Violation
	doubts     []string
}

// addViolation adds a violation. The caller adds the references to what the message names.
func (b *judgement) addViolation(format string, args ...any) *Violation {
	b.violations = append(b.violations, Violation{Message: fmt.Sprintf(format, args...)})
	return &b.violations[len(b.violations)-1]
}

// addAt adds a violation of an object in one of its versions.
func (b *judgement) addAt(life *history.Lifetime, v history.Version, format string, args ...any) *Violation {
	text := fmt.Sprintf(format, args...)
	return b.addViolation("%s at %s%s", life.Identity(), v.RevisionRange, text).revision(v.RevisionRange)
}

func (b *judgement) addDoubt(format string, args ...any) {
	b.doubts = append(b.doubts, fmt.Sprintf(format, args...))
}

// hasSource reports whether one of the sources recorded the run, and adds a doubt if not.
func (b *judgement) hasSource(anyOf ...history.Source) bool {
	if b.History.Has(anyOf...) {
		return true
	}
	b.addDoubt("none of %v was recorded", anyOf)
	return false
}
