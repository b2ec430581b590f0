package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

// fakeOperator has a spec with the fields a to d, each of which causes a child. A field with the
// value bad is an error state; the value forbidden is rejected. Each function is a defect.
type fakeOperator struct {
	runs int
	// changed is called with the children after an accepted spec.
	changed func(before, now map[string]any, children map[string]string)
	// rejects is called with the children after a rejected spec, and returns writes.
	rejects func(children map[string]string) []string
	// admits accepts all specs.
	admits bool
	// sticks keeps an error state for ever.
	sticks bool
	// onCrash is called if the leader was killed.
	onCrash func(children map[string]string)
	err     error
}

func (f *fakeOperator) Run(_ context.Context, specs []map[string]any, crash bool) ([]Rest, error) {
	f.runs++
	if f.err != nil {
		return nil, f.err
	}
	var rests []Rest
	var before map[string]any
	children, ready := map[string]string{}, true
	for i, spec := range specs {
		var r Rest
		if !f.admits && contains(spec, "forbidden") {
			r.Rejected = "422 Invalid"
			if f.rejects != nil {
				r.Writes = f.rejects(children)
			}
		} else {
			stuck := f.sticks && !ready
			ready = !contains(spec, "bad") && !stuck
			clear(children)
			for name, value := range spec {
				children[name] = fmt.Sprint(value)
			}
			if f.changed != nil && i > 0 {
				f.changed(before, spec, children)
			}
			before = spec
		}
		if crash && i == 1 && f.onCrash != nil {
			f.onCrash(children)
		}
		now := maps.Clone(children)
		now["address"] = fmt.Sprint(f.runs) // another one in each run
		r.Ready, r.State = ready, State{"child": now}
		rests = append(rests, r)
	}
	return rests, nil
}

func contains(spec map[string]any, value string) bool {
	for _, v := range spec {
		if v == value {
			return true
		}
	}
	return false
}

func set(name, value string) Change {
	return Change{Path: []string{name}, Field: name, Kind: "set-" + value, Value: value, At: 1,
		Invalid: value == "forbidden"}
}

var all = []Change{set("a", "1"), set("b", "bad"), set("c", "forbidden"),
	{Path: []string{"x"}, Field: "x", Kind: Remove, At: 1}, set("d", "2")}

func TestCheck(t *testing.T) {
	keepsRemoved := func(before, now map[string]any, children map[string]string) {
		if _, there := now["x"]; !there && before["x"] != nil {
			children["x"] = fmt.Sprint(before["x"])
		}
	}
	neverRestores := func(before, now map[string]any, children map[string]string) {
		if before["d"] == "2" && now["d"] != "2" {
			children["d"] = "2"
		}
	}
	for name, tc := range map[string]struct {
		operator *fakeOperator
		oracle   Oracle
		want     string
		crash    bool
	}{
		"Differential": {&fakeOperator{changed: keepsRemoved}, Differential, "/x:remove", false},
		"Restore":      {&fakeOperator{changed: neverRestores}, Restore, "/d:set-2", false},
		"RejectedIsWritten": {&fakeOperator{rejects: func(map[string]string) []string { return []string{"a patch"} }},
			Rejected, "/c:set-forbidden", false},
		"RejectedChanges": {&fakeOperator{rejects: func(c map[string]string) []string { c["e"] = "1"; return nil }},
			Rejected, "/c:set-forbidden", false},
		"InvalidIsAccepted": {&fakeOperator{admits: true}, Rejected, "/c:set-forbidden", false},
		"Corrected":         {&fakeOperator{sticks: true}, Corrected, "/b:set-bad", false},
		"Crash": {&fakeOperator{onCrash: func(c map[string]string) { c["f"] = "1" }}, Differential,
			"crash /a:set-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e := &Explorer{Kind: "things", Sample: map[string]any{"x": "0"}, Changes: all}
			found, err := e.Check(t.Context(), tc.operator, Sequence{Changes: all, Crash: tc.crash})
			g.Expect(err).NotTo(HaveOccurred())
			var shortest []string
			for _, f := range found {
				if f.Oracle == tc.oracle {
					shortest = append(shortest, f.Sequence.String())
					g.Expect(f.Repeated).To(BeTrue())
					g.Expect(f.Details).NotTo(BeEmpty())
				}
			}
			g.Expect(shortest).To(ContainElement(tc.want))
		})
	}
}

// A correct operator leads to no finding, and the coverage counts what was tried.
func TestCheckHolds(t *testing.T) {
	g := NewWithT(t)
	e := &Explorer{Kind: "things", Sample: map[string]any{"x": "0"}, Changes: all}
	operator := &fakeOperator{}
	for _, s := range Sequences(all[:4], 1) {
		found, err := e.Check(t.Context(), operator, s)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found).To(BeEmpty(), "%s", s)
	}
	c := e.Coverage()
	g.Expect([]int{c.Fields, c.AllFields, c.Changes, c.AllChanges, c.Ready, c.NotReady, c.RejectedCount}).
		To(Equal([]int{4, 5, 4, 5, 2, 1, 1}))
	g.Expect(c.Untried).To(ConsistOf("d"))
	g.Expect(c.String()).To(ContainSubstring("4 of 5 fields, 4 of 5 changes"))
}

func TestCheckErrors(t *testing.T) {
	g := NewWithT(t)
	e := &Explorer{Kind: "things", Sample: map[string]any{"x": "bad"}, Changes: all}
	_, err := e.Check(t.Context(), &fakeOperator{}, Sequence{Changes: all[:1]})
	g.Expect(err).To(MatchError(ContainSubstring("did not become ready")))
	broken := errors.New("no control plane")
	_, err = e.Check(t.Context(), &fakeOperator{err: broken}, Sequence{Changes: all[:1]})
	g.Expect(err).To(MatchError(broken))
}

func TestSequences(t *testing.T) {
	g := NewWithT(t)
	a, b := Sequences(all, 7), Sequences(all, 7)
	g.Expect(a).To(Equal(b), "one seed, one order")
	n := 0
	for _, s := range a {
		n += len(s.Changes)
	}
	g.Expect(n).To(Equal(len(all)))
}

func TestSequences_OneMoreLeavesTheOthers(t *testing.T) {
	g := NewWithT(t)
	var changes []Change
	for i := range 40 {
		changes = append(changes, Change{Path: []string{"field", fmt.Sprint(i)}, Kind: "set"})
	}
	added := Change{Path: []string{"added"}, Kind: "set"}
	flat := func(all []Sequence) (ids []string) {
		for _, s := range all {
			for _, c := range s.Changes {
				ids = append(ids, c.ID())
			}
		}
		return ids
	}
	moved, total := 0, 0
	for seed := range uint64(20) {
		before, after := Sequences(changes, seed), Sequences(slices.Insert(slices.Clone(changes), 5, added), seed)
		rest := slices.DeleteFunc(flat(after), func(id string) bool { return id == added.ID() })
		g.Expect(rest).To(Equal(flat(before)), "seed %d: the order of the others", seed)
		lines := map[string]bool{}
		for _, s := range before {
			lines[s.String()] = true
		}
		for _, s := range after {
			total++
			if !lines[s.String()] {
				moved++
			}
		}
	}
	g.Expect(moved).To(BeNumerically("<=", 3*20), "of %d sequences", total)
}
