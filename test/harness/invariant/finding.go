// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// Finding is one cause: violations of one run that share a request, a call, a revision or an object
// in a wrong state. Violations of one invariant about one object are one cause as well, and so are all
// writes of replicas that did not lead. A lost object is a finding of its own.
type Finding struct {
	// Invariants are the IDs of those that were broken, in their order.
	Invariants []string `json:"invariants"`
	// Objects are the objects of the finding, by the scenario's names.
	Objects    []string         `json:"objects,omitempty"`
	Violations []FoundViolation `json:"violations"`
}

// FoundViolation is a violation with its invariant.
type FoundViolation struct {
	Invariant string `json:"invariant"`
	Violation
}

// String describes the finding in a few words.
func (f Finding) String() string {
	words := strings.Join(f.Invariants, " ")
	if f.Lost() {
		words += " (an object of a user was deleted)"
	}
	if len(f.Objects) > 0 {
		words += ": " + strings.Join(f.Objects, ", ")
	}
	return words
}

// Lost reports whether an object of a user was deleted without a step that deletes it.
func (f Finding) Lost() bool { return len(f.Violations) > 0 && f.Violations[0].Lost }

// SameCause reports whether the finding of another run has the same cause: both have a violation
// with the same signature.
func (f Finding) SameCause(o Finding) bool {
	return slices.ContainsFunc(f.Violations, func(v FoundViolation) bool {
		return slices.ContainsFunc(o.Violations, func(w FoundViolation) bool {
			return v.Invariant == w.Invariant && v.Signature == w.Signature
		})
	})
}

// cause is what violations of one finding share.
type cause struct {
	HistoryRef
	// within is the invariant of the violations that may share it; "" for all.
	within string
}

// causesOf returns what a violation of an invariant may share with others. A checkpoint is no cause.
// An object that a violation refers to is in a wrong state, which breaks several invariants. Other
// violations about the object may have nothing to do with that.
func causesOf(id string, v Violation) []cause {
	var causes []cause
	for _, r := range v.References {
		if r.Checkpoint == "" && !v.Lost {
			causes = append(causes, cause{HistoryRef: r})
		}
	}
	for _, name := range v.Objects {
		causes = append(causes, cause{HistoryRef{Object: name}, fmt.Sprint(id, v.Lost)})
	}
	if id == SingleWriter.Name {
		causes = append(causes, cause{within: id})
	}
	return causes
}

// Findings groups the violations of a run. Lost objects are first, as in the verdicts. Exceptions and
// violations that clean runs have too are not findings.
func Findings(verdicts []Verdict) []Finding {
	type group struct {
		violations []FoundViolation
		causes     []cause // what its violations share
	}
	var groups []group
	for _, v := range verdicts {
		if v.Excepted != "" || v.Result != Broken {
			continue
		}
		for _, violation := range v.Violations {
			merged := group{causes: causesOf(v.Invariant, violation)}
			shared := func(c cause) bool { return slices.Contains(merged.causes, c) }
			groups = slices.DeleteFunc(groups, func(g group) bool {
				if !slices.ContainsFunc(g.causes, shared) {
					return false
				}
				merged.causes = append(merged.causes, g.causes...)
				merged.violations = append(merged.violations, g.violations...)
				return true
			})
			merged.violations = append(merged.violations, FoundViolation{v.Invariant, violation})
			groups = append(groups, merged)
		}
	}
	var findings []Finding
	for _, g := range groups {
		findings = append(findings, NewFinding(g.violations))
	}
	return findings
}

// NewFinding returns the finding of some violations, with the first one of each signature.
func NewFinding(violations []FoundViolation) (f Finding) {
	seen := map[string]bool{}
	for _, v := range violations {
		if id := v.Invariant + v.Signature; !seen[id] {
			f.Violations, seen[id] = append(f.Violations, v), true
		}
		f.Invariants, f.Objects = append(f.Invariants, v.Invariant), append(f.Objects, v.Objects...)
	}
	slices.SortFunc(f.Invariants, Order)
	slices.Sort(f.Objects)
	f.Invariants, f.Objects = slices.Compact(f.Invariants), slices.Compact(f.Objects)
	return f
}

// nameObjects notes the objects of the violations: those that they refer to, and those of their
// requests, calls and revisions. The Lease is no object: all violations of the election refer to it.
func (b *judgement) nameObjects() {
	keys := map[HistoryRef]history.Key{}
	keyOf := func(uid types.UID, key history.Key) history.Key {
		if life := b.index.Lifetime(uid); life != nil && uid != "" {
			return collapsed(life)
		}
		return key
	}
	for _, v := range b.History.Versions {
		for _, r := range revisionOf(v.RevisionRange) {
			keys[r] = keyOf(v.UID, v.Key)
		}
	}
	for _, r := range b.History.Requests {
		keys[HistoryRef{Request: r.ID}] = keyOf(r.UID, r.Key)
	}
	for _, call := range b.History.Calls {
		keys[HistoryRef{Call: call.ID}] = keyOf(call.Owner, history.Key{})
	}
	normal := b.History.Normalizer()
	lease := normal.Replace(b.Contract.Lease.String())
	for n := range b.violations {
		v := &b.violations[n]
		for _, r := range v.References {
			name := cmp.Or(r.Object, event.ReplaceAllString(normal.Replace(keys[r].String()), ".*"))
			if name != "" && name != lease && !v.Lost && !slices.Contains(v.Objects, name) {
				v.Objects = append(v.Objects, name)
			}
		}
	}
}

// What differs from run to run in a message: remarks in parentheses, revisions, UIDs, and numbers
// with or without a unit.
var (
	remark   = regexp.MustCompile(`\s*\([^()]*\)`)
	revision = regexp.MustCompile(`(at |after |between )?resourceVersions? \d+( and \d+)?`)
	uid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// event is the time in nanoseconds that client-go appends to the name of the object that an event is about.
	event  = regexp.MustCompile(`\.[0-9a-f]{16}\b`)
	number = regexp.MustCompile(`(\d+(\.\d+)?(ns|µs|ms|s|m|h)?)+`)
)

// Names returns a replacer of the names that differ from run to run, by placeholders.
func Names(h *history.History) *strings.Replacer {
	aliases := map[string]string{}
	for _, life := range h.Index().All() {
		if last := life.Last(); last != nil && last.Object.GetGenerateName() != "" && life.Name != "" {
			aliases[life.Name] = h.Normalizer().Replace(last.Object.GetGenerateName()) + "*"
		}
	}
	maps.Copy(aliases, h.Aliases)
	return (&history.History{Aliases: aliases}).Normalizer()
}

// sign sets the signature: the message without what differs from run to run.
func (v *Violation) sign(names *strings.Replacer) {
	text := names.Replace(v.Message)
	for remark.MatchString(text) {
		text = remark.ReplaceAllString(text, "")
	}
	for _, differs := range []*regexp.Regexp{revision, uid, event, number} {
		text = differs.ReplaceAllString(text, "#")
	}
	v.Signature = text
}
