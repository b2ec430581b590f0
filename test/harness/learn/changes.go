package learn

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
)

// Faults of the generated scenarios besides the first: those that need a change or haste. All of
// them would take an hour for each kind.
var (
	changeFaults = []string{"crash-after-write", "lost-response", "watch-delay", "stale-start"}
	hasteFaults  = []string{"crash-after-write", "watch-delay", "stale-start"}
)

// DraftFile is a scenario in YAML.
type DraftFile struct {
	Name string
	Text []byte
}

// ScenarioNames are the names that scenarios of the kind may have.
func (k *DraftKind) ScenarioNames() []string {
	return []string{k.ScenarioName(), k.ChangeName(), k.HasteName()}
}

// Scenarios are the scenarios of a kind: its life, its change if it can grow, and haste.
func (d *Draft) Scenarios(k *DraftKind) ([]DraftFile, error) {
	var all []DraftFile
	for i, write := range []func(*DraftKind) ([]byte, error){d.Scenario, d.Change, d.Haste} {
		text, err := write(k)
		if err != nil {
			return nil, err
		}
		all = append(all, DraftFile{Name: k.ScenarioNames()[i], Text: text})
	}
	if k.Grown == nil {
		all = slices.Delete(all, 1, 2)
	}
	return all, nil
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

// HasteName is the name of the scenario with haste.
func (k *DraftKind) HasteName() string { return k.Word + "-haste" }

// Haste returns the scenario of users who do not wait for the operator between their steps.
func (d *Draft) Haste(k *DraftKind) ([]byte, error) {
	main := k.Objects[k.Main]
	w := d.begin(k, k.HasteName(), fmt.Sprintf("A %s whose users do not wait for the operator.", main.GetKind()),
		hasteFaults)
	return w.finish(k, func() {
		w.create()
		w.scale(k)
		w.rest("made", k.Until, "")
		if k.Grown != nil {
			w.mayApply("grow", k.Grown)
			w.shrink()
			w.rest("changed-twice", k.Until, "made")
		}
		w.delete(main)
		w.line("- wait: {object: %s, gone: true}", k.ref())
		w.apply("again", main)
		w.rest("reborn", k.Until, "made")
		if k.Grown != nil {
			w.mayApply("grow-last", k.Grown)
		}
		w.abandon(k)
		w.rest("gone", "gone: true", "")
		w.create()
		w.delete(main)
		w.deleteOthers()
		w.rest("never-made", "gone: true", "gone")
	})
}

// scenarioWriter writes the steps of a scenario, and keeps its first error.
type scenarioWriter struct {
	writer
	kind  *DraftKind
	quiet string
	// created counts the times that the objects were applied.
	created int
	err     error
}

func (d *Draft) begin(k *DraftKind, name, about string, faults []string) *scenarioWriter {
	w := &scenarioWriter{kind: k, quiet: d.quiet()}
	w.line("# %s", about)
	w.line("name: %s", name)
	w.line("invariants: [end-state, convergence]")
	w.line("faults: [%s]", strings.Join(faults, ", "))
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
	w.created++
	for i, o := range w.kind.Objects {
		name := fmt.Sprintf("create-%d", w.created)
		if i != w.kind.Main {
			name = fmt.Sprintf("prepare-%d-%d", w.created, i+1)
		}
		w.apply(name, o)
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

func (w *scenarioWriter) delete(o *unstructured.Unstructured) { w.line("- delete: %s", refOf(o)) }

func (w *scenarioWriter) rest(name, until, like string) {
	w.line("- name: %s", name)
	w.line("  quiesce:")
	w.line("    until: [{object: %s, %s}]", w.kind.ref(), until)
	if like != "" {
		w.line("    like: %s", like)
	}
	w.line("    for: %s", w.quiet)
}

// scale sets other replicas while the operator starts, and the first ones at once.
func (w *scenarioWriter) scale(k *DraftKind) {
	version := versionOf(k.definition, k.Objects[k.Main])
	if version == nil || version.Subresources == nil || version.Subresources.Scale == nil {
		return
	}
	path := strings.Split(strings.TrimPrefix(version.Subresources.Scale.SpecReplicasPath, "."), ".")
	replicas := 1
	value, _, _ := unstructured.NestedFieldNoCopy(k.Objects[k.Main].Object, path...)
	switch value := value.(type) {
	case int64:
		replicas = int(value)
	case float64: // as encoding/json decodes numbers
		replicas = int(value)
	}
	w.line("- {name: scale-up, refused: may, scale: {object: %s, replicas: %d}}", k.ref(), replicas+1)
	w.line("- {name: scale-back, refused: may, scale: {object: %s, replicas: %d}}", k.ref(), replicas)
}

// abandon removes the labels of all objects, then the objects that the kind's may need, and then the
// kind's.
func (w *scenarioWriter) abandon(k *DraftKind) {
	for i, o := range k.Objects {
		if len(o.GetLabels()) > 0 {
			w.line("- {name: %s, refused: may, patch: {object: %s, merge: {metadata: {labels: null}}}}", fmt.Sprintf("unlabel-%d", i+1), refOf(o))
		}
	}
	w.deleteOthers()
	w.delete(k.Objects[k.Main])
}

// deleteOthers deletes the objects besides the kind's. Namespaces stay, as nothing can be created in
// one that ends.
func (w *scenarioWriter) deleteOthers() {
	for i, o := range w.kind.Objects {
		if i != w.kind.Main && o.GetKind() != "Namespace" {
			w.delete(o)
		}
	}
}
