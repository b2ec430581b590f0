// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"leasehold.dev/test/harness/history"
)

// Finding is one cause: violations of one run that share an object, a request, a call or a
// revision, and all writes of replicas that did not lead.
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
	Message   string `json:"message"`
	Signature string `json:"signature"`
}

// String describes the finding in a few words.
func (f Finding) String() string {
	words := strings.Join(f.Invariants, " ")
	if len(f.Objects) > 0 {
		words += ": " + strings.Join(f.Objects, ", ")
	}
	return words
}

// SameCause reports whether the finding of another run has the same cause: both have a violation
// with the same signature.
func (f Finding) SameCause(o Finding) bool {
	return slices.ContainsFunc(f.Violations, func(v FoundViolation) bool {
		return slices.ContainsFunc(o.Violations, func(w FoundViolation) bool {
			return v.Invariant == w.Invariant && v.Signature == w.Signature
		})
	})
}

// single are the invariants that judge each request by itself. An object may have several of their
// causes, and others: they share an object with violations of the same invariant only.
var single = []*Invariant{&Quiescence, &Preconditions, &SufficientRights}

// cause is what violations of one finding share.
type cause struct {
	HistoryRef
	// within is the invariant of the violations that may share it; "" for all.
	within string
}

// causesWithin returns the causes of a violation of an invariant. What a replica writes after its
// term has one cause, whatever the objects are.
func causesWithin(id string, all []HistoryRef) []cause {
	alone := slices.ContainsFunc(single, func(i *Invariant) bool { return i.Name == id })
	causes := make([]cause, len(all), len(all)+1)
	for n, r := range all {
		causes[n] = cause{HistoryRef: r}
		if alone && r.Object != "" {
			causes[n].within = id
		}
	}
	if id == SingleWriter.Name {
		causes = append(causes, cause{within: id})
	}
	return causes
}

// Findings groups the violations of a run. Exceptions and violations that clean runs have too are
// not findings.
func Findings(c Case, verdicts []Verdict) []Finding {
	objects := newObjectNames(c)
	type group struct {
		Finding
		causes []cause // what its violations share
	}
	var groups []group
	for _, v := range verdicts {
		if v.Excepted != "" || v.Result != Broken {
			continue
		}
		for _, violation := range v.Violations {
			causes := causesWithin(v.Invariant, objects.causesOf(violation))
			merged := group{causes: causes}
			groups = slices.DeleteFunc(groups, func(g group) bool {
				if !slices.ContainsFunc(causes, func(c cause) bool { return slices.Contains(g.causes, c) }) {
					return false
				}
				merged.causes = append(merged.causes, g.causes...)
				merged.Violations = append(merged.Violations, g.Violations...)
				return true
			})
			merged.Violations = append(merged.Violations, FoundViolation{v.Invariant, violation.Message, violation.Signature})
			groups = append(groups, merged)
		}
	}
	findings := make([]Finding, 0, len(groups))
	for _, g := range groups {
		for _, r := range g.causes {
			if r.Object != "" {
				g.Objects = append(g.Objects, r.Object)
			}
		}
		for _, v := range g.Violations {
			if !slices.Contains(g.Invariants, v.Invariant) {
				g.Invariants = append(g.Invariants, v.Invariant)
			}
		}
		slices.Sort(g.Objects)
		g.Objects = slices.Compact(g.Objects)
		findings = append(findings, g.Finding)
	}
	return findings
}

// objectNames finds the objects that violations refer to.
type objectNames struct {
	lease      string
	byRevision map[uint64]string
	byRequest  map[string]history.Request
	byCall     map[string]string
}

func newObjectNames(c Case) *objectNames {
	normal, index := c.History.Normalizer(), c.History.Index()
	n := &objectNames{
		lease:      normal.Replace(c.Contract.Lease.String()),
		byRevision: map[uint64]string{}, byRequest: map[string]history.Request{}, byCall: map[string]string{},
	}
	for _, life := range index.All() {
		name := normal.Replace(collapsed(life).String())
		versions := life.Versions
		if life.End != nil {
			versions = append(slices.Clone(versions), *life.End)
		}
		for _, v := range versions {
			if revision, exact := v.Exact(); exact {
				n.byRevision[revision] = name
			}
		}
	}
	for _, r := range c.History.Requests {
		if life := index.Lifetime(r.UID); life != nil && r.UID != "" {
			r.Key = collapsed(life)
		}
		r.Namespace, r.Name = normal.Replace(r.Namespace), event.ReplaceAllString(normal.Replace(r.Name), ".*")
		n.byRequest[r.ID] = r
	}
	for _, call := range c.History.Calls {
		if life := index.Lifetime(call.Owner); life != nil {
			n.byCall[call.ID] = normal.Replace(collapsed(life).String())
		}
	}
	return n
}

// causesOf returns what a violation may share with others: its references and their objects. A
// checkpoint is no cause. The Lease is no object: all violations of the election refer to it.
func (n *objectNames) causesOf(v Violation) []HistoryRef {
	var causes []HistoryRef
	add := func(r HistoryRef) {
		if r != (HistoryRef{}) && r.Object != n.lease && !slices.Contains(causes, r) {
			causes = append(causes, r)
		}
	}
	for _, r := range v.References {
		if r.Checkpoint != "" {
			continue
		}
		add(r)
		switch {
		case r.Request != "":
			request := n.byRequest[r.Request]
			add(HistoryRef{Object: request.Key.String()})
			if revision, exact := request.Exact(); exact {
				add(HistoryRef{Revision: revision})
			}
		case r.Call != "":
			add(HistoryRef{Object: n.byCall[r.Call]})
		case r.Revision != 0:
			add(HistoryRef{Object: n.byRevision[r.Revision]})
		}
	}
	return causes
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

// signer makes the signatures of one run's violations.
type signer struct{ names *strings.Replacer }

func newSigner(h *history.History) signer {
	aliases := map[string]string{}
	for _, life := range h.Index().All() {
		if last := life.Last(); last != nil && last.Object.GetGenerateName() != "" && life.Name != "" {
			aliases[life.Name] = h.Normalizer().Replace(last.Object.GetGenerateName()) + "*"
		}
	}
	maps.Copy(aliases, h.Aliases)
	return signer{(&history.History{Aliases: aliases}).Normalizer()}
}

// sign sets the signature of a violation: its message without what differs from run to run.
func (s signer) sign(v *Violation) {
	text := s.names.Replace(v.Message)
	for remark.MatchString(text) {
		text = remark.ReplaceAllString(text, "")
	}
	for _, differs := range []*regexp.Regexp{revision, uid, event, number} {
		text = differs.ReplaceAllString(text, "#")
	}
	v.Signature = text
}
