// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"leasehold.dev/test/harness/history"
)

// entry is the state of an object at a checkpoint, field by field.
type entry struct {
	key      history.Key
	object   string // the object as the scenario calls it; several may share a generated name
	where    string // UID and version
	revision history.RevisionRange
	parent   *history.Lifetime // the object that it was made for; nil if none
	owner    string            // what the scenario calls that; several may share a name
	fields   map[string]string
}

// state maps the scenario's names to the objects that concern the operator.
type state map[string]entry

// scope returns the filter for the objects to compare.
type scope func(comparison, *history.History) func(*history.Lifetime) bool

// stateAt returns the state at a checkpoint, or nil if the history has none of this name.
func stateAt(h *history.History, o comparison, mark string, of scope) state {
	i := slices.IndexFunc(h.Checkpoints, func(m history.Checkpoint) bool { return m.Name == mark })
	if i < 0 {
		return nil
	}
	return stateIn(h, h.Index(), o, h.Checkpoints[i], of)
}

// stateIn returns the state at the end of any checkpoint.
func stateIn(h *history.History, index *history.Index, o comparison, mark history.Checkpoint, of scope) state {
	var uids []string
	for _, life := range index.All() {
		if life.UID != "" {
			uids = append(uids, string(life.UID), "(UID of "+life.String()+")")
		}
	}
	normal, known := h.Normalizer(), strings.NewReplacer(uids...)
	text := func(s string) string { return normal.Replace(known.Replace(s)) }
	s, concerns := state{}, of(o, h)
	for _, life := range index.All() {
		now := at(life, mark)
		if now == nil || !concerns(life) {
			continue
		}
		e := entry{key: life.Key, object: text(collapsed(life).String()),
			where:    fmt.Sprintf("UID %s at %s", life.UID, now.RevisionRange),
			revision: now.RevisionRange, fields: map[string]string{}}
		flatten(e.fields, "", now.Object.Object, text, now.Object.GetGeneration())
		for path, value := range e.fields {
			e.fields[path] = anonymous(value, h.Replicas)
		}
		for _, k := range o.Kinds {
			for _, c := range k.Children {
				if c.Resource != life.Resource {
					continue
				}
				if owner := c.ownerOf(index, k.Resource, *now); owner != nil {
					e.parent, e.owner = owner, text(owner.String())
				}
			}
		}
		s.add(e)
	}
	return s
}

// add adds an object by its name, and a number if others share that.
func (s state) add(e entry) {
	name := e.object
	for n := 2; s[name].fields != nil; n++ {
		name = fmt.Sprintf("%s #%d", e.object, n)
	}
	s[name] = e
}

// anonymous replaces what identifies a replica or its credentials, which differ with the leader and
// the control plane: the name of its Pod, and UIDs of objects that the history does not have.
func anonymous(value string, replicas []history.Process) string {
	if slices.ContainsFunc(replicas, func(r history.Process) bool { return r.Name == value }) {
		return "(a replica)"
	}
	return uid.ReplaceAllString(value, "(a UID)")
}

// incidental are fields that differ from run to run without a meaning.
var incidental = []string{".metadata.uid", ".metadata.resourceVersion", ".metadata.generation",
	".metadata.managedFields", ".metadata.creationTimestamp"}

// flatten collects all fields by path. Elements of lists are identified by type or name, so their
// order is ignored. An observed generation compares as current or not.
func flatten(fields map[string]string, path string, value any, text func(string) string, generation int64) {
	if slices.Contains(incidental, path) {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			flatten(fields, path+"."+text(key), inner, text, generation)
		}
	case []any:
		seen := map[string]bool{}
		for i, inner := range value {
			name := fmt.Sprint(i)
			if named := text(nameOf(inner)); named != "" && !seen[named] {
				name = named
			}
			seen[name] = true
			flatten(fields, path+"["+name+"]", inner, text, generation)
		}
	case string:
		fields[path] = text(allocated(path, value))
	default:
		fields[path] = fmt.Sprint(value)
		if strings.HasSuffix(path, ".observedGeneration") {
			fields[path] = fmt.Sprintf("(current: %t)", value == generation)
		}
	}
}

// allocated replaces what the clock or the API server chose, which clean runs on control planes of their
// own may share by chance: times, resource versions and the addresses of Services.
func allocated(path, value string) string {
	if _, err := time.Parse(time.RFC3339Nano, value); err == nil {
		return "(a time)"
	}
	if value != "" && strings.HasSuffix(strings.ToLower(path), "resourceversion") {
		return "(a version)"
	}
	if _, err := netip.ParseAddr(value); err == nil && strings.HasPrefix(path, ".spec.clusterIP") {
		return "(an address)"
	}
	return value
}

// nameOf returns the name that identifies an element of a list, or "".
func nameOf(element any) string {
	fields, _ := element.(map[string]any)
	for _, key := range []string{"type", "name"} {
		if name, ok := fields[key].(string); ok {
			return name
		}
	}
	return ""
}

// difference is one difference from the clean runs.
type difference struct {
	name       string // what the scenario calls the object
	object     string // also the object, without the number of a generated name
	owner      string
	text       string
	references []HistoryRef // of the version with the difference, if there is one
}

// differences compares a state with those of clean runs. It ignores fields that differ among
// these.
func differences(got state, clean []state) []difference {
	var found []difference
	names := sets.KeySet(got)
	for _, s := range clean {
		names = names.Union(sets.KeySet(s))
	}
	for _, name := range sets.List(names) {
		have, there := got[name]
		in := 0
		var like entry
		for _, s := range clean {
			if e, ok := s[name]; ok {
				in++
				like = e
			}
		}
		switch {
		case !there && in == len(clean):
			found = append(found, difference{name, like.object, like.owner, name + " does not exist", nil})
		case there && in == 0:
			found = append(found, difference{name, have.object, have.owner,
				fmt.Sprintf("%s (%s) exists, and in no clean run", name, have.where), revisionOf(have.revision)})
		case there && in == len(clean):
			for _, line := range fieldsThatDiffer(name, have, clean) {
				found = append(found, difference{name, have.object, have.owner, line, revisionOf(have.revision)})
			}
		}
	}
	return found
}

func fieldsThatDiffer(name string, have entry, clean []state) []string {
	paths := sets.KeySet(have.fields)
	for _, s := range clean {
		paths = paths.Union(sets.KeySet(s[name].fields))
	}
	var found []string
	for _, path := range sets.List(paths) {
		want, inFirst, steady := steadyField(name, path, clean)
		value, ok := have.fields[path]
		switch {
		case ok && !inFirst && isOtherHash(path, name, clean):
		case steady && (value != want || ok != inFirst):
			found = append(found, fmt.Sprintf("%s (%s): %s is %s, in clean runs %s", name, have.where, path[1:],
				orAbsent(value, ok), orAbsent(want, inFirst)))
		case !ok && have.key.Resource == history.Secrets && strings.HasPrefix(path, ".data.") && inAll(path, name, clean):
			// A random value differs in each run, but its key must be there.
			found = append(found, fmt.Sprintf("%s (%s): %s is absent, in clean runs it has a value that differs", name,
				have.where, path[1:]))
		}
	}
	return found
}

// steadyField returns the value of a field in the first state, and whether it is the same in all.
func steadyField(name, path string, states []state) (value string, there, steady bool) {
	value, there = states[0][name].fields[path]
	return value, there, !slices.ContainsFunc(states[1:], func(s state) bool {
		other, ok := s[name].fields[path]
		return other != value || ok != there
	})
}

// isOtherHash reports whether the last key of a path is a hash, where each clean run has one of its own.
func isOtherHash(path, name string, clean []state) bool {
	end := strings.LastIndex(path, ".") + 1
	if !history.IsHash(path[end:]) {
		return false
	}
	runs := map[string]int{}
	for _, s := range clean {
		hashes := 0
		for other := range s[name].fields {
			if key, there := strings.CutPrefix(other, path[:end]); there && history.IsHash(key) {
				hashes++
				runs[key]++
			}
		}
		if hashes == 0 {
			return false
		}
	}
	return !slices.Contains(slices.Collect(maps.Values(runs)), len(clean))
}

// inAll reports whether an object has a field in all states.
func inAll(path, name string, states []state) bool {
	return !slices.ContainsFunc(states, func(s state) bool {
		_, ok := s[name].fields[path]
		return !ok
	})
}

func orAbsent(value string, there bool) string {
	if !there {
		return "absent"
	}
	return fmt.Sprintf("%q", value)
}

// compared calls judge with the differences at each checkpoint at which the operator is done. It adds a doubt
// if there is nothing to compare with.
func (b *judgement) compared(of scope, judge func(m history.Checkpoint, got state, found []difference)) {
	if len(b.References) < 2 {
		b.addDoubt("there are %d clean runs to compare with; only two show which values differ from run to run", len(b.References))
		return
	}
	touched := b.touched()
	for _, m := range b.History.Checkpoints {
		if !m.AtRest() {
			continue
		}
		if rejected := b.rejectedOnlyHere(); len(rejected) > 0 && !rejected[0].At.After(m.Ended) {
			b.addDoubt("at %q the state is not comparable with clean runs: %s", m.Name, rejected[0])
			continue
		}
		got := stateAt(b.History, b.comparison, m.Name, of)
		var clean []state
		for _, h := range b.References {
			if s := stateAt(h, b.comparison, m.Name, of); s != nil {
				s.complete(got, stateAt(h, b.comparison, m.Name, comparison.owned), touched)
				clean = append(clean, s)
			}
		}
		if len(clean) < 2 {
			b.addDoubt("%q is in %d clean runs; only two show which values differ from run to run", m.Name, len(clean))
			continue
		}
		judge(m, got, differences(got, clean))
	}
}

// rejectedBefore returns the steps before a checkpoint that the API server rejected.
func (b *judgement) rejectedBefore(m history.Checkpoint) []history.Rejection {
	return slices.DeleteFunc(slices.Clone(b.History.Rejections), func(r history.Rejection) bool {
		return r.Step == "" || r.At.After(m.Ended)
	})
}

// rejectedOnlyHere returns the steps that the API server rejected, except those that it rejected in
// all clean runs as well.
func (b *judgement) rejectedOnlyHere() []history.Rejection {
	return slices.DeleteFunc(slices.Clone(b.History.Rejections), func(r history.Rejection) bool {
		return r.Step == "" || !slices.ContainsFunc(b.References, func(h *history.History) bool {
			return !slices.ContainsFunc(h.Rejections, func(o history.Rejection) bool { return o.Step == r.Step })
		})
	})
}

// complete adds objects of other makers to a clean run's state if a fault of the judged run
// touched them: only there has the operator repaired them.
func (s state) complete(got, wide state, touched map[string]bool) {
	for key := range got {
		if e, made := wide[key]; made && touched[key] {
			s[key] = e
		}
	}
}
