// SPDX-License-Identifier: Apache-2.0

package learn_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
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
			kinds := kindsOf(t, []learn.Sample{sample}, definition(t, guestbooks))
			var got, want []string
			for _, o := range kinds[0].Objects {
				got = append(got, yamlOf(t, o))
			}
			for _, text := range tc.want {
				want = append(want, yamlOf(t, object(t, text)))
			}
			g := NewWithT(t)
			g.Expect(strings.Join(got, "---\n")).To(Equal(strings.Join(want, "---\n")))
			g.Expect(kinds[0].Guesses).To(HaveLen(tc.guesses))
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
		got := kindsOf(t, samples[:n], two)[0].Objects[0].GetAPIVersion()
		NewWithT(t).Expect(got).To(Equal(want), "with %d samples", n)
	}
}

// The user of a sample makes, changes and deletes its object; an administrator does the rest.
func TestScenarios_UserOfASample(t *testing.T) {
	sample := learn.Sample{Objects: []*unstructured.Unstructured{
		object(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: guests}}"),
		object(t, "{apiVersion: webapp.example.com/v1, kind: Guestbook, "+
			"metadata: {name: mine, annotations: {prove.leasehold.dev/as: alice}}, spec: {size: 1}}"),
	}}
	g, kinds := NewWithT(t), kindsOf(t, []learn.Sample{sample}, definition(t, guestbooks))
	d, k := &learn.Draft{Kinds: kinds}, &kinds[0]
	g.Expect(k.Grow(learn.GrowAll)).To(BeTrue())
	for name, write := range map[string]func(*learn.DraftKind) ([]byte, error){
		"life": d.Scenario, "observing": d.Observing, "change": d.Change,
	} {
		text, err := write(k)
		g.Expect(err).NotTo(HaveOccurred())
		s, err := scenario.Parse(text)
		g.Expect(err).NotTo(HaveOccurred(), "%s:\n%s", name, text)
		for _, step := range s.Steps {
			asAlice := step.Patch != nil || step.Delete != nil || step.Apply != nil && step.Apply["kind"] == "Guestbook"
			g.Expect(asAlice).To(Equal(step.As == "alice"), "%s: the step %s is done as %q", name, step.Name, step.As)
		}
		g.Expect(string(text)).NotTo(ContainSubstring(learn.AsAnnotation), name)
	}
}

func yamlOf(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(o.Object)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
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
			_, err := learn.Kinds(tc.definitions, tc.samples)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.says)))
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
	NewWithT(t).Expect(kindsOf(t, []learn.Sample{sample}, small, large, definition(t, guestbooks))).To(HaveExactElements(
		HaveField("Word", "guestbook"), HaveField("Word", "archive"), HaveField("Word", "visitor")))
}
