// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
)

// changeFaults are those of the scenario with a change that need one. All of them would take an hour
// for each kind.
var changeFaults = []string{"crash-after-write", "lost-response", "watch-delay", "stale-start"}

// DraftFile is a scenario in YAML.
type DraftFile struct {
	Name string
	Text []byte
}

// ScenarioNames are the names that scenarios of the kind may have.
func (k *DraftKind) ScenarioNames() []string {
	return []string{k.ScenarioName(), k.ChangeName()}
}

// Scenarios are the scenarios of a kind: its life, and its change if it can grow.
func (d *Draft) Scenarios(k *DraftKind) ([]DraftFile, error) {
	life, err := d.Scenario(k)
	if err != nil {
		return nil, err
	}
	all := []DraftFile{{k.ScenarioName(), life}}
	if k.Grown == nil {
		return all, nil
	}
	change, err := d.Change(k)
	return append(all, DraftFile{k.ChangeName(), change}), err
}

// Grow grows the kind's object by its schema, but not at the paths in without. It reports whether
// there is anything to grow.
func (k *DraftKind) Grow(how Growth, without ...string) bool {
	k.Grown, k.Added = nil, nil
	sample := k.Objects[k.Main]
	version := versionOf(k.definition, sample)
	if version == nil || version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return false
	}
	schema := version.Schema.OpenAPIV3Schema.Properties["spec"]
	spec, _, _ := unstructured.NestedMap(sample.Object, "spec")
	if spec == nil {
		return false
	}
	grown, added := Grow(&schema, spec, how, without...)
	if len(added) == 0 {
		return false
	}
	k.Grown, k.Added = sample.DeepCopy(), added
	k.Grown.Object["spec"] = grown
	return true
}

// ChangeName is the name of the scenario with a change.
func (k *DraftKind) ChangeName() string { return k.Word + "-change" }

// Change is the scenario of an object that grows and gets its first spec again, with rest between.
func (d *Draft) Change(k *DraftKind) ([]byte, error) {
	if k.Grown == nil {
		return nil, nil
	}
	w := d.begin(k, k.ChangeName(),
		fmt.Sprintf("A %s that grows, and gets its first spec again.", k.Objects[k.Main].GetKind()), changeFaults)
	w.line("# guess: the schema allows %s.", strings.Join(k.Added, ", "))
	return w.finish(k, func() {
		w.create()
		w.rest("made", k.Until, "")
		w.mayApply("grow", k.Grown)
		w.rest("grown", k.Until, "")
		w.shrink()
		w.rest("restored", k.Until, "made")
		w.delete(k.Objects[k.Main])
		w.rest("gone", "gone: true", "")
	})
}

// scenarioWriter writes the steps of a scenario, and keeps its first error.
type scenarioWriter struct {
	writer
	kind  *DraftKind
	quiet string
	err   error
}

func (d *Draft) begin(k *DraftKind, name, about string, faults []string) *scenarioWriter {
	w := &scenarioWriter{kind: k, quiet: d.quiet()}
	w.line("# %s", about)
	w.line("name: %s", name)
	w.line("invariants: [end-state, convergence]")
	w.line("faults: [%s]", strings.Join(faults, ", "))
	k.writeUsers(&w.writer)
	return w
}

func (w *scenarioWriter) finish(k *DraftKind, steps func()) ([]byte, error) {
	w.line("steps:")
	steps()
	if w.err != nil {
		return nil, fmt.Errorf("writing the scenarios of %s: %w", k.Word, w.err)
	}
	return []byte(w.String()), nil
}

func (w *scenarioWriter) apply(name string, o *unstructured.Unstructured) {
	if err := writeApply(&w.writer, name, o); err != nil && w.err == nil {
		w.err = err
	}
}

// mayApply applies a change that a webhook may refuse, as for a field that never changes. Such a
// step says nothing about the operator.
func (w *scenarioWriter) mayApply(name string, o *unstructured.Unstructured) {
	w.apply(name, o)
	w.line("  refused: may")
}

// create applies the sample.
func (w *scenarioWriter) create() {
	if err := w.kind.writeApplies(&w.writer); err != nil && w.err == nil {
		w.err = err
	}
}

// shrink gives the grown object its first spec again, as kubectl apply does. A server-side apply that
// removes the last field of a spec leaves null, which the schema refuses.
func (w *scenarioWriter) shrink() {
	patch, err := w.shrinking()
	if err != nil && w.err == nil {
		w.err = err
	}
	w.line("- name: shrink")
	writeAs(&w.writer, w.kind.Objects[w.kind.Main])
	w.line("  patch: {object: %s, merge: %s}", w.kind.ref(), patch)
	w.line("  refused: may")
}

// shrinking is the merge patch from the grown object to the first one.
func (w *scenarioWriter) shrinking() ([]byte, error) {
	grown, err := json.Marshal(w.kind.Grown)
	if err != nil {
		return nil, err
	}
	first, err := json.Marshal(w.kind.Objects[w.kind.Main])
	if err != nil {
		return nil, err
	}
	return jsonmergepatch.CreateThreeWayJSONMergePatch(grown, first, grown)
}

func (w *scenarioWriter) delete(o *unstructured.Unstructured) {
	w.line("- delete: %s", refOf(o))
	writeAs(&w.writer, o)
}

func (w *scenarioWriter) rest(name, until, like string) {
	w.line("- name: %s", name)
	w.line("  quiesce:")
	w.line("    until: [{object: %s, %s}]", w.kind.ref(), until)
	if like != "" {
		w.line("    like: %s", like)
	}
	if name != "gone" {
		w.kind.writeIdle(&w.writer)
	}
	w.line("    for: %s", w.quiet)
}
