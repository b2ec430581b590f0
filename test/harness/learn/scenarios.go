// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/yaml"
)

// changeFaults are those of the scenario with a change that need one. All of them would take an hour
// for each kind.
var changeFaults = []string{"crash-after-write", "lost-response", "watch-delay", "stale-start"}

// DraftFile is a scenario in YAML.
type DraftFile struct {
	Name string
	Text []byte
}

// ScenarioName is the name of the kind's scenario.
func (k *DraftKind) ScenarioName() string { return k.Word + "-life" }

// ChangeName is the name of the scenario with a change.
func (k *DraftKind) ChangeName() string { return k.Word + "-change" }

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

// Scenario is the file with the kind's scenario: an object from its creation to its end.
func (d *Draft) Scenario(k *DraftKind) ([]byte, error) {
	w := d.begin(k, head{
		about: fmt.Sprintf("A %s from its first day to its last", k.Objects[k.Main].GetKind()), guesses: k.Guesses,
		name: k.ScenarioName(), invariants: k.Invariants,
	})
	w.rest("made", k.Until, "")
	w.delete()
	w.rest("gone", "gone: true", "")
	return w.end()
}

// Observing is the scenario of the runs from which to learn. Nothing shows yet when the operator is
// done, so it has some time before the first checkpoint.
func (d *Draft) Observing(k *DraftKind) ([]byte, error) {
	w := d.begin(k, head{name: k.ScenarioName(), invariants: []string{"single-writer"}})
	w.line("- {name: made, quiesce: {until: [{object: %s, exists: true}], idle: %s, for: %s, within: 30s}}", k.ref(), observing, w.quiet)
	w.delete()
	w.line("- sleep: 1s")
	w.line("- {name: gone, quiesce: {until: [{object: %s, gone: true}], for: %s, within: 30s}}", k.ref(), w.quiet)
	return w.end()
}

// Change is the scenario of an object that can grow: it does, and gets its first spec again, with rest between.
// A webhook may refuse either, as for a field that never changes, which shows nothing about the operator.
func (d *Draft) Change(k *DraftKind) ([]byte, error) {
	w := d.begin(k, head{
		about:   fmt.Sprintf("A %s that grows, and gets its first spec again", k.Objects[k.Main].GetKind()),
		guesses: []string{"the schema allows " + strings.Join(k.Added, ", ")},
		name:    k.ChangeName(), invariants: []string{"end-state", "convergence"}, faults: changeFaults,
	})
	w.rest("made", k.Until, "")
	w.apply("grow", k.Grown)
	w.line("  refused: may")
	w.rest("grown", k.Until, "")
	w.shrink()
	w.line("  refused: may")
	w.rest("restored", k.Until, "made")
	w.delete()
	w.rest("gone", "gone: true", "")
	return w.end()
}

// head is what a scenario has before its steps.
type head struct {
	about, name                 string
	guesses, invariants, faults []string
}

// scenarioWriter writes the steps of a scenario, and keeps its errors.
type scenarioWriter struct {
	writer
	kind  *DraftKind
	quiet string
	errs  error
}

// begin writes a scenario up to the steps that make the kind's object.
func (d *Draft) begin(k *DraftKind, h head) *scenarioWriter {
	w := &scenarioWriter{kind: k, quiet: d.quiet()}
	if h.about != "" {
		w.line("# %s.", h.about)
	}
	for _, guess := range h.guesses {
		w.line("# guess: %s.", guess)
	}
	w.line("name: %s", h.name)
	w.line("invariants: [%s]", strings.Join(h.invariants, ", "))
	if len(h.faults) > 0 {
		w.line("faults: [%s]", strings.Join(h.faults, ", "))
	}
	w.line("steps:")
	for i, o := range k.Objects {
		name := "create"
		if i != k.Main {
			name = fmt.Sprintf("prepare-%d", i+1)
		}
		w.apply(name, o)
	}
	return w
}

func (w *scenarioWriter) end() ([]byte, error) {
	if w.errs != nil {
		return nil, fmt.Errorf("writing the scenarios of %s: %w", w.kind.Word, w.errs)
	}
	return []byte(w.String()), nil
}

func (w *scenarioWriter) apply(name string, o *unstructured.Unstructured) {
	body, err := yaml.Marshal(o.Object)
	w.errs = errors.Join(w.errs, err)
	w.line("- name: %s", name)
	w.line("  apply:")
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			line = "    " + line
		}
		w.line("%s", line)
	}
}

// shrink gives the grown object its first spec again, as kubectl apply does. A server-side apply that
// removes the last field of a spec leaves null, which the schema refuses.
func (w *scenarioWriter) shrink() {
	main := w.kind.Objects[w.kind.Main]
	grown, errGrown := json.Marshal(w.kind.Grown)
	first, errFirst := json.Marshal(main)
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(grown, first, grown)
	w.errs = errors.Join(w.errs, errGrown, errFirst, err)
	w.line("- name: shrink")
	w.line("  patch: {object: %s, merge: %s}", w.kind.ref(), patch)
}

func (w *scenarioWriter) delete() {
	w.line("- name: delete")
	w.line("  delete: %s", w.kind.ref())
}

// rest waits for a state of the kind's object, and then for a silence that shows that the operator is
// done, if that is longer than the one of all checkpoints, or a while in vain.
func (w *scenarioWriter) rest(name, until, like string) {
	w.line("- name: %s", name)
	w.line("  quiesce:")
	w.line("    until: [{object: %s, %s}]", w.kind.ref(), until)
	if like != "" {
		w.line("    like: %s", like)
	}
	switch {
	case name == "gone":
	case w.kind.Pause > 0:
		w.line("    idle: %s", (w.kind.Pause + 2*time.Second).Round(time.Second))
	case w.kind.Unfinished:
		w.line("    busy: true")
		w.line("    within: 20s")
	}
	w.line("    for: %s", w.quiet)
}

// ref names the kind's object.
func (k *DraftKind) ref() string {
	o, namespace := k.Objects[k.Main], ""
	if o.GetNamespace() != "" {
		namespace = fmt.Sprintf(", namespace: %s", quoted(o.GetNamespace()))
	}
	return fmt.Sprintf("{apiVersion: %s, kind: %s%s, name: %s}", o.GetAPIVersion(), o.GetKind(), namespace,
		quoted(o.GetName()))
}
