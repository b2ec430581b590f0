// SPDX-License-Identifier: Apache-2.0

package learn_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/learn"
	"leasehold.dev/test/harness/scenario"
)

func TestKinds_Samples(t *testing.T) {
	scaffold := "{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: guestbook-sample}, spec: null}"
	for name, tc := range map[string]struct {
		samples []string // of one file
		want    []string
		guesses int
	}{
		"Scaffold": {[]string{scaffold}, []string{
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: '{guestbook}', namespace: default}, spec: {}}",
		}, 0},
		"None": {nil, []string{
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: '{guestbook}', namespace: default}, spec: {}}",
		}, 1},
		"References": {[]string{
			"{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: guests}, stringData: {a: b}}",
			"{apiVersion: v1, kind: Namespace, metadata: {name: guests}}",
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: mine, namespace: guests}, spec: {secret: key}, status: {old: yes}}",
		}, []string{
			"{apiVersion: v1, kind: Secret, metadata: {name: '{secret}', namespace: '{namespace}'}, stringData: {a: b}}",
			"{apiVersion: v1, kind: Namespace, metadata: {name: '{namespace}'}}",
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: '{guestbook}', namespace: '{namespace}'}, spec: {secret: '{secret}'}}",
		}, 0},
		"TwoExamples": {[]string{
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {text: \"a\\n\\nb\\n\"}}",
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: one}, spec: {}}",
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: two}, spec: {}}",
		}, []string{
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: '{configmap}', namespace: default}, data: {text: \"a\\n\\nb\\n\"}}",
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: '{guestbook}', namespace: default}, spec: {}}",
		}, 0},
		"LabelOfTheSameText": {[]string{
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: mine, labels: {app: mine}}, spec: {secret: mine, selector: {app: mine}}}",
		}, []string{
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: '{guestbook}', namespace: default, labels: {app: mine}}, spec: {secret: '{guestbook}', selector: {app: mine}}}",
		}, 0},
		"NoSuchField": {[]string{
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: mine}, spec: {secret: key, size: 3}}",
		}, []string{
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: '{guestbook}', namespace: default}, spec: {secret: key}}",
		}, 1},
		"NamespaceElsewhere": {[]string{"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: mine, namespace: prod}, spec: {}}"}, []string{
			"{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: '{guestbook}', namespace: prod}, spec: {}}",
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var sample learn.Sample
			for _, text := range tc.samples {
				sample.Objects = append(sample.Objects, object(t, text))
			}
			kinds, err := learn.Kinds([]*apiextensionsv1.CustomResourceDefinition{definition(t, guestbooks)},
				[]learn.Sample{sample})
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, o := range kinds[0].Objects {
				got = append(got, yamlOf(t, o))
			}
			for _, text := range tc.want {
				want = append(want, yamlOf(t, object(t, text)))
			}
			if strings.Join(got, "---\n") != strings.Join(want, "---\n") {
				t.Errorf("objects are\n%s\nwant\n%s", strings.Join(got, "---\n"), strings.Join(want, "---\n"))
			}
			if len(kinds[0].Guesses) != tc.guesses {
				t.Errorf("guesses are %q, want %d", kinds[0].Guesses, tc.guesses)
			}
		})
	}
}

// A sample of the stored version goes before one that is converted for each reader.
func TestKinds_SampleOfTheStoredVersion(t *testing.T) {
	two := definition(t, guestbooks)
	older := two.Spec.Versions[0]
	older.Name, older.Storage = "v1alpha1", false
	two.Spec.Versions = append([]apiextensionsv1.CustomResourceDefinitionVersion{older}, two.Spec.Versions...)
	var samples []learn.Sample
	for _, version := range []string{"v1alpha1", "v1"} {
		samples = append(samples, learn.Sample{Objects: []*unstructured.Unstructured{
			object(t, "{apiVersion: webapp.example.com/"+version+", kind: Guestbook, metadata: {name: mine}, spec: {}}")}})
	}
	for n, want := range map[int]string{1: "webapp.example.com/v1alpha1", 2: "webapp.example.com/v1"} {
		kinds, err := learn.Kinds([]*apiextensionsv1.CustomResourceDefinition{two}, samples[:n])
		if err != nil {
			t.Fatal(err)
		}
		if got := kinds[0].Objects[0].GetAPIVersion(); got != want {
			t.Errorf("with %d samples: %s, want %s", n, got, want)
		}
	}
}

// The user of a sample makes, changes and deletes its object; an administrator does the rest.
func TestScenarios_UserOfASample(t *testing.T) {
	sample := learn.Sample{Objects: []*unstructured.Unstructured{
		object(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: guests}}"),
		object(t, "{apiVersion: webapp.example.com/v1, kind: Guestbook, "+
			"metadata: {name: mine, annotations: {prove.leasehold.dev/as: alice}}, spec: {size: 1}}"),
	}}
	definitions := []*apiextensionsv1.CustomResourceDefinition{definition(t, guestbooks)}
	kinds, err := learn.Kinds(definitions, []learn.Sample{sample})
	if err != nil {
		t.Fatal(err)
	}
	d, k := &learn.Draft{Kinds: kinds}, &kinds[0]
	if !k.Grow(learn.GrowAll) {
		t.Fatal("the sample did not grow")
	}
	for name, write := range map[string]func(*learn.DraftKind) ([]byte, error){
		"life": d.Scenario, "observing": d.Observing, "change": d.Change,
	} {
		text, err := write(k)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		for _, step := range s.Steps {
			asAlice := step.Patch != nil || step.Delete != nil || step.Apply != nil && step.Apply["kind"] == "Guestbook"
			if asAlice != (step.As == "alice") {
				t.Errorf("%s: the step %s is done as %q", name, step.Name, step.As)
			}
		}
		if strings.Contains(string(text), learn.AsAnnotation) {
			t.Errorf("%s applies the annotation:\n%s", name, text)
		}
	}
}

func yamlOf(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestKinds_Refuses(t *testing.T) {
	old := []learn.Sample{{Objects: []*unstructured.Unstructured{object(t,
		"{apiVersion: webapp.example.com/v1alpha1, kind: Guestbook, metadata: {name: old}}")}}}
	for name, tc := range map[string]struct {
		definitions []*apiextensionsv1.CustomResourceDefinition
		samples     []learn.Sample
		says        string
	}{
		"NoKinds": {nil, nil, "the manifests define no kinds; name the whole installation"},
		"OldVersion": {[]*apiextensionsv1.CustomResourceDefinition{definition(t, guestbooks)}, old,
			"Guestbook old has the version webapp.example.com/v1alpha1, which the definition guestbooks.webapp.example.com does not serve"},
		"NotServed": {[]*apiextensionsv1.CustomResourceDefinition{definition(t,
			strings.Replace(guestbooks, "served: true", "served: false", 1))}, nil, "serves no version"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := learn.Kinds(tc.definitions, tc.samples); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Kinds() = %v, want an error with %q", err, tc.says)
			}
		})
	}
}

// The kinds that users create, and those with the most fields, are described first.
func TestKinds_AreInOrder(t *testing.T) {
	small := definition(t, strings.NewReplacer("guestbook", "visitor", "Guestbook", "Visitor").Replace(guestbooks))
	large := definition(t, strings.NewReplacer("guestbook", "archive", "Guestbook", "Archive").Replace(guestbooks))
	spec := large.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties = map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "string"}, "b": {Type: "string"}, "c": {Type: "string"},
		"d": {Type: "string"}, "e": {Type: "string"}}
	large.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	sample := learn.Sample{Objects: []*unstructured.Unstructured{
		object(t, "{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: {name: mine}, spec: {}}")}}
	kinds, err := learn.Kinds([]*apiextensionsv1.CustomResourceDefinition{small, large, definition(t, guestbooks)},
		[]learn.Sample{sample})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, k := range kinds {
		words = append(words, k.Word)
	}
	if want := []string{"guestbook", "archive", "visitor"}; !slices.Equal(words, want) {
		t.Errorf("kinds = %q, want %q", words, want)
	}
}
