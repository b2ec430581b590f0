// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// Draft is a subject and its scenarios, as far as they are known.
type Draft struct {
	// Options name the program and what the operator ships.
	Options
	Name      string
	Arguments []Argument
	// Lease has the name and the namespace; Leases are all that the operator acquired.
	Lease  history.Key
	Leases []history.Key
	// Grace is the Pod's terminationGracePeriodSeconds.
	Grace int64
	// Unchanged is the largest number of writes without effect to one object in a clean run.
	Unchanged int
	// Strays are resources that replicas wrote in clean runs while they did not lead.
	Strays []history.Resource
	Kinds  []DraftKind // hides those of the options
}

// DraftKind is a kind that the operator may reconcile, with its scenario.
type DraftKind struct {
	invariant.Kind
	// Word is the kind in lower case: the scenario's placeholder and the start of its name.
	Word string
	// Objects are applied by users in this order, with placeholders for names. Objects[Main] is of
	// the kind.
	Objects []*unstructured.Unstructured
	Main    int
	// Until is the state at rest, as YAML has it after the object; see scenario.Wait.
	Until      string
	Invariants []string
	// Pause is the longest time between two of the operator's writes for it, if that is more than the
	// course of its work.
	Pause time.Duration
	// Fails means that the status reported no success. A change of such a sample may never be completed.
	Fails bool
	// Unfinished means that the operator may go on to write: nothing showed when it is done and it wrote
	// again and again, or the status reported no success and it may try again. The states at rest of two
	// runs may differ then.
	Unfinished bool
	// Problem is why its scenario could not be run; there is none in the files then.
	Problem string
	// Ignored means that the operator wrote nothing in the clean runs.
	Ignored bool
	// Guesses are comments on the scenario, Notes on the kind in the subject.
	Guesses, Notes []string
	// Grown is the kind's object with more entries and fields, and Added are their paths; see Grow.
	Grown *unstructured.Unstructured
	Added []string

	// Watched are resources with objects that the operator wrote and that name no owner.
	Watched []history.Resource

	definition  *apiextensionsv1.CustomResourceDefinition
	definitions []*apiextensionsv1.CustomResourceDefinition // of all kinds
	samples     []Sample
	example     *unstructured.Unstructured // the sample of the kind; nil if there is none
}

// Kinds drafts one scenario for each kind that the definitions serve: the first sample of it, with the other objects of
// its file and those that they refer to, or the smallest object that its schema allows.
func Kinds(definitions []*apiextensionsv1.CustomResourceDefinition, samples []Sample) ([]DraftKind, error) {
	var all []DraftKind
	for _, d := range definitions {
		k, err := kindOf(d, definitions, samples)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(o DraftKind) bool { return o.Word == k.Word }) {
			k.Word += "-" + strings.SplitN(d.Spec.Group, ".", 2)[0]
		}
		all = append(all, *k)
	}
	if len(all) == 0 {
		return nil, errors.New("the manifests define no kinds; name the whole installation, such as config/default, or the CustomResourceDefinitions with --crds")
	}
	return all, nil
}

func kindOf(d *apiextensionsv1.CustomResourceDefinition, definitions []*apiextensionsv1.CustomResourceDefinition,
	samples []Sample) (*DraftKind, error) {
	k := &DraftKind{Word: strings.ToLower(d.Spec.Names.Kind), Until: untilExists, Invariants: []string{"single-writer"},
		definition: d, definitions: definitions, samples: samples}
	k.Resource = history.Resource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
	version, err := storageVersion(d)
	if err != nil {
		return nil, err
	}
	if k.example = example(d, version.Name, samples); k.example == nil {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: d.Spec.Group, Version: version.Name, Kind: d.Spec.Names.Kind})
		k.Objects = []*unstructured.Unstructured{o}
		k.Guesses = append(k.Guesses, fmt.Sprintf("there is no sample of a %s: this is the smallest that its schema allows",
			d.Spec.Names.Kind))
	}
	return k, k.use(form{})
}

// form is a way to use the samples: with their own names, or all of them.
type form struct{ ownNames, whole bool }

// forms are those to try until the operator does something with the sample, the plainest first. Objects with other
// names in each run do not meet those of earlier runs, and each further object costs plans.
func (k *DraftKind) forms() []form {
	all := []form{{}}
	if k.example == nil {
		return all
	}
	all = append(all, form{ownNames: true})
	if len(gather(k.example, k.definition, k.samples, true)) > len(k.Objects) {
		all = append(all, form{whole: true})
	}
	return all
}

// String is what a scenario says about the form.
func (f form) String() string {
	switch {
	case f.ownNames:
		return "the objects keep the names of the samples"
	case f.whole:
		return "the objects are those of all samples"
	}
	return ""
}

// use makes the kind's objects from the samples.
func (k *DraftKind) use(f form) error {
	if k.example != nil {
		k.Objects = nil
		for _, o := range gather(k.example, k.definition, k.samples, f.whole) {
			if o == k.example {
				k.Main = len(k.Objects)
			}
			k.Objects = append(k.Objects, o.DeepCopy())
		}
	}
	for _, o := range k.Objects {
		if err := k.complete(o); err != nil {
			return err
		}
	}
	if f.ownNames {
		return nil
	}
	names := placeholders(k.Objects, k.Main)
	for _, o := range k.Objects {
		o.Object, _ = renamed(o.Object, names).(map[string]any)
	}
	return nil
}

// isOf reports whether an object is of a defined kind.
func isOf(o *unstructured.Unstructured, d *apiextensionsv1.CustomResourceDefinition) bool {
	kind := o.GroupVersionKind()
	return kind.Group == d.Spec.Group && kind.Kind == d.Spec.Names.Kind
}

// versionOf is the served version of an object; nil if the definition serves no such version.
func versionOf(d *apiextensionsv1.CustomResourceDefinition,
	o *unstructured.Unstructured) *apiextensionsv1.CustomResourceDefinitionVersion {
	i := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == o.GroupVersionKind().Version && v.Served
	})
	if i < 0 {
		return nil
	}
	return &d.Spec.Versions[i]
}

func storageVersion(
	d *apiextensionsv1.CustomResourceDefinition,
) (*apiextensionsv1.CustomResourceDefinitionVersion, error) {
	for i, v := range d.Spec.Versions {
		if v.Storage && v.Served {
			return &d.Spec.Versions[i], nil
		}
	}
	for i, v := range d.Spec.Versions {
		if v.Served {
			return &d.Spec.Versions[i], nil
		}
	}
	return nil, fmt.Errorf("the definition %s serves no version", d.Name)
}

// complete fills in what the schema requires and where the object is.
func (k *DraftKind) complete(o *unstructured.Unstructured) error {
	o.SetManagedFields(nil)
	unstructured.RemoveNestedField(o.Object, "status")
	if o.GetName() == "" {
		o.SetName(strings.ToLower(o.GetKind()))
	}
	i := slices.IndexFunc(k.definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool { return isOf(o, d) })
	if i < 0 {
		place(o, !slices.Contains(clusterScoped, o.GetKind()))
		return nil
	}
	d := k.definitions[i]
	place(o, d.Spec.Scope == apiextensionsv1.NamespaceScoped)
	version := versionOf(d, o)
	if version == nil {
		return fmt.Errorf("the sample %s %s has the version %s, which the definition %s does not serve", o.GetKind(),
			o.GetName(), o.GetAPIVersion(), d.Name)
	}
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return nil
	}
	schema := version.Schema.OpenAPIV3Schema
	// The operator reconciles a spec even if the schema does not require it.
	if _, specified := schema.Properties["spec"]; specified && o.Object["spec"] == nil {
		o.Object["spec"] = map[string]any{}
	}
	if lacking := prune(schema, o.Object); len(lacking) > 0 {
		k.Guesses = append(k.Guesses, fmt.Sprintf("the schema lacks what a sample has: %s", strings.Join(lacking, ", ")))
	}
	completed, guesses := Complete(schema, o.Object)
	o.Object, _ = completed.(map[string]any)
	if len(guesses) > 0 {
		k.Guesses = append(k.Guesses, fmt.Sprintf("the schema requires what no sample has: %s", strings.Join(guesses, ", ")))
	}
	return nil
}

// place puts an object that needs a namespace and has none into default.
func place(o *unstructured.Unstructured, namespaced bool) {
	switch {
	case !namespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(metav1.NamespaceDefault)
	}
}

// clusterScoped are kinds of Kubernetes without a namespace that samples may contain.
var clusterScoped = []string{
	"Namespace", "ClusterRole", "ClusterRoleBinding", "PersistentVolume", "StorageClass", "PriorityClass",
	"IngressClass", "Node",
}
