// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
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
	// Name, Binary and Manifests are as in a subject.
	Name, Binary, Manifests string
	// Deployment is the one that runs Binary; empty if the manifests have no other.
	Deployment string
	CRDs       []string
	// Env are variables of the program besides the Deployment's. Values is a file for a chart.
	// WorkingDir is where it runs.
	Env                map[string]string
	Values, WorkingDir string
	// Node means that the operator may create what has Pods.
	Node      bool
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
	Kinds  []DraftKind
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

	definition *apiextensionsv1.CustomResourceDefinition
	sampled    bool // by an example of the operator's
}

// Sample is a file of an operator's examples.
type Sample struct {
	File    string
	Objects []*unstructured.Unstructured
}

// Kinds drafts one scenario for each kind that the definitions serve: the first sample of it, with
// the other objects of its file, or the smallest object that its schema allows. The kinds that
// probably have the most children are first: a sample shows that users create it, and a large schema
// describes what it consists of.
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
	slices.SortStableFunc(all, func(a, b DraftKind) int { return cmp.Compare(b.weight(), a.weight()) })
	if len(all) == 0 {
		return nil, errors.New("the manifests define no kinds; name the whole installation, such as config/default, or the CustomResourceDefinitions with --crds")
	}
	return all, nil
}

// weight grows with what a kind probably consists of.
func (k *DraftKind) weight() int {
	version := versionOf(k.definition, k.Objects[k.Main])
	if version == nil || version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return 0
	}
	spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
	weight := fields(&spec)
	if k.sampled {
		weight += sampleWeight
	}
	return weight
}

// sampleWeight is more than a schema has fields.
const sampleWeight = 1_000_000

// fields counts the fields of a schema.
func fields(schema *apiextensionsv1.JSONSchemaProps) (n int) {
	for _, field := range schema.Properties {
		n += 1 + fields(&field)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		n += fields(schema.Items.Schema)
	}
	return n
}

func kindOf(d *apiextensionsv1.CustomResourceDefinition, definitions []*apiextensionsv1.CustomResourceDefinition,
	samples []Sample) (*DraftKind, error) {
	k := &DraftKind{Word: strings.ToLower(d.Spec.Names.Kind), Until: untilExists, Invariants: []string{"single-writer"},
		definition: d}
	k.Resource = history.Resource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
	version, err := storageVersion(d)
	if err != nil {
		return nil, err
	}
	if s, i := sampleOf(d, version.Name, samples); i >= 0 {
		for j, o := range s.Objects {
			switch {
			case j == i:
				k.Main = len(k.Objects)
			case isOf(o, d):
				continue // one more example of the kind
			}
			k.Objects = append(k.Objects, o.DeepCopy())
		}
	}
	k.sampled = len(k.Objects) > 0
	if !k.sampled {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: d.Spec.Group, Version: version.Name, Kind: d.Spec.Names.Kind})
		o.SetName(k.Word)
		k.Objects = []*unstructured.Unstructured{o}
		k.Guesses = append(k.Guesses, fmt.Sprintf("there is no sample of a %s: this is the smallest that its schema allows",
			d.Spec.Names.Kind))
	}
	for _, o := range k.Objects {
		if err := k.complete(o, definitions); err != nil {
			return nil, err
		}
	}
	k.rename()
	return k, nil
}

// sampleOf is the first sample with an object of a kind, and the object's index, or -1. An object of the stored version
// goes first: one of another is converted for each reader, by the operator.
func sampleOf(d *apiextensionsv1.CustomResourceDefinition, version string, samples []Sample) (Sample, int) {
	for _, wanted := range []func(*unstructured.Unstructured) bool{
		func(o *unstructured.Unstructured) bool {
			return isOf(o, d) && o.GroupVersionKind().Version == version
		},
		func(o *unstructured.Unstructured) bool { return isOf(o, d) },
	} {
		for _, s := range samples {
			if i := slices.IndexFunc(s.Objects, wanted); i >= 0 {
				return s, i
			}
		}
	}
	return Sample{}, -1
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
func (k *DraftKind) complete(o *unstructured.Unstructured,
	definitions []*apiextensionsv1.CustomResourceDefinition) error {
	o.SetManagedFields(nil)
	unstructured.RemoveNestedField(o.Object, "status")
	if o.GetName() == "" {
		o.SetName(strings.ToLower(o.GetKind()))
	}
	i := slices.IndexFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool { return isOf(o, d) })
	if i < 0 {
		place(o, !slices.Contains(clusterScoped, o.GetKind()))
		return nil
	}
	d := definitions[i]
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

// rename replaces the objects' names by placeholders throughout the file.
func (k *DraftKind) rename() {
	names := map[string]string{}
	used := map[string]bool{}
	for i := range k.Objects {
		o := k.Objects[(k.Main+i)%len(k.Objects)] // the one of the kind has the plain word
		word := strings.ToLower(o.GetKind())
		for n := 2; used[word]; n++ {
			word = fmt.Sprintf("%s-%d", strings.ToLower(o.GetKind()), n)
		}
		used[word] = true
		if _, known := names[o.GetName()]; !known {
			names[o.GetName()] = "{" + word + "}"
		}
	}
	for _, o := range k.Objects {
		o.Object, _ = renamed(o.Object, names).(map[string]any)
	}
}

// labelKeys are fields with values of labels. These are often the same text as the sample's name, and
// mean something else, as the version of a program.
var labelKeys = []string{"labels", "matchLabels", "selector"}

// renamed replaces texts that are names; keys, parts of texts and values of labels stay.
func renamed(value any, names map[string]string) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if key != "kind" && key != "apiVersion" && !slices.Contains(labelKeys, key) {
				value[key] = renamed(inner, names)
			}
		}
	case []any:
		for i, inner := range value {
			value[i] = renamed(inner, names)
		}
	case string:
		if name, known := names[value]; known {
			return name
		}
	}
	return value
}
