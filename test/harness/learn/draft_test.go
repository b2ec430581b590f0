// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// guestbook is an object of the kind, in YAML.
func guestbook(metadata, spec string) string {
	return "{apiVersion: webapp.example.com/v1, kind: Guestbook, metadata: " + metadata + ", spec: " + spec + "}"
}

func sampleOf(t *testing.T, objects ...string) (s Sample) {
	t.Helper()
	for _, text := range objects {
		s = append(s, object(t, text))
	}
	return s
}

func TestKinds_Samples(t *testing.T) {
	const mine, placed = "{name: mine}", "{name: '{guestbook}', namespace: default}"
	for name, tc := range map[string]struct {
		samples []string // of one file
		want    []string
		guesses int
	}{
		"Scaffold": {[]string{guestbook("{name: guestbook-sample}", "null")}, []string{guestbook(placed, "{}")}, 0},
		"None":     {nil, []string{guestbook(placed, "{}")}, 1},
		"References": {[]string{
			"{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: guests}, stringData: {a: b}}",
			"{apiVersion: v1, kind: Namespace, metadata: {name: guests}}",
			guestbook("{name: mine, namespace: guests}", "{secret: key}, status: {old: yes}"),
		}, []string{
			"{apiVersion: v1, kind: Namespace, metadata: {name: '{namespace}'}}",
			"{apiVersion: v1, kind: Secret, metadata: {name: '{secret}', namespace: '{namespace}'}, stringData: {a: b}}",
			guestbook("{name: '{guestbook}', namespace: '{namespace}'}", "{secret: '{secret}'}"),
		}, 0},
		"TwoExamples": {[]string{
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {text: \"a\\n\\nb\\n\"}}",
			guestbook("{name: one}", "{}"), guestbook("{name: two}", "{}"),
		}, []string{
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: '{configmap}', namespace: default}, data: {text: \"a\\n\\nb\\n\"}}",
			guestbook(placed, "{}"),
		}, 0},
		"LabelOfTheSameText": {
			[]string{guestbook("{name: mine, labels: {app: mine}}", "{secret: mine, selector: {app: mine}}")},
			[]string{guestbook("{name: '{guestbook}', namespace: default, labels: {app: mine}}",
				"{secret: '{guestbook}', selector: {app: mine}}")}, 0},
		"NoSuchField": {[]string{guestbook(mine, "{secret: key, size: 3}")}, []string{guestbook(placed, "{secret: key}")}, 1},
		"NamespaceElsewhere": {[]string{guestbook("{name: mine, namespace: prod}", "{}")},
			[]string{guestbook("{name: '{guestbook}', namespace: prod}", "{}")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := kindsOf(t, []Sample{sampleOf(t, tc.samples...)}, definition(t, guestbooks))
			g := NewWithT(t)
			g.Expect(kinds[0].Objects).To(BeComparableTo([]*unstructured.Unstructured(sampleOf(t, tc.want...))))
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
	var samples []Sample
	for _, version := range []string{"v1alpha1", "v1"} {
		samples = append(samples, sampleOf(t, strings.Replace(guestbook("{name: mine}", "{}"), "v1", version, 1)))
	}
	for n, want := range map[int]string{1: "webapp.example.com/v1alpha1", 2: "webapp.example.com/v1"} {
		got := kindsOf(t, samples[:n], two)[0].Objects[0].GetAPIVersion()
		NewWithT(t).Expect(got).To(Equal(want), "with %d samples", n)
	}
}

func TestKinds_Refuses(t *testing.T) {
	old := []Sample{sampleOf(t, "{apiVersion: webapp.example.com/v1alpha1, kind: Guestbook, metadata: {name: old}}")}
	for name, tc := range map[string]struct {
		definitions []*apiextensionsv1.CustomResourceDefinition
		samples     []Sample
		says        string
	}{
		"NoKinds": {nil, nil, "the manifests define no kinds; name the whole installation"},
		"OldVersion": {[]*apiextensionsv1.CustomResourceDefinition{definition(t, guestbooks)}, old,
			"Guestbook old has the version webapp.example.com/v1alpha1, which the definition guestbooks.webapp.example.com does not serve"},
		"NotServed": {[]*apiextensionsv1.CustomResourceDefinition{definition(t,
			strings.Replace(guestbooks, "served: true", "served: false", 1))}, nil, "serves no version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Kinds(tc.definitions, tc.samples)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.says)))
		})
	}
}

// An object comes after those that it names, which may be in other files. A name beside a kind is one of that kind.
func TestKinds_SamplesInSeveralFiles(t *testing.T) {
	files := []Sample{
		sampleOf(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}"),
		sampleOf(t, guestbook("{name: mine, namespace: guests}", "{secret: key, selector: {app: other}}"), guestbook("{name: second}", "{}")),
		sampleOf(t, "{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: guests}, owner: {kind: ConfigMap, name: account}}"),
		sampleOf(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: account}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: account}}"),
		sampleOf(t, "{apiVersion: v1, kind: Namespace, metadata: {name: guests}}"),
	}
	namespace, account := "{apiVersion: v1, kind: Namespace, metadata: {name: '{namespace}'}}", "{apiVersion: v1, kind: ConfigMap, metadata: "+
		"{name: '{configmap}', namespace: default}}"
	secret := "{apiVersion: v1, kind: Secret, metadata: {name: '{secret}', namespace: '{namespace}'}, owner: {kind: ConfigMap, name: '{configmap}'}}"
	main := guestbook("{name: '{guestbook}', namespace: '{namespace}'}", "{secret: '{secret}', selector: {app: other}}")
	g, k := NewWithT(t), kindsOf(t, files, definition(t, guestbooks))[0]
	g.Expect(k.Objects).To(ConsistOf(sampleOf(t, namespace, account, secret, main)))
	g.Expect(k.Objects[k.Main].GetKind()).To(Equal("Guestbook"))
	g.Expect(k.Main).To(Equal(3), "what it names is first")

	g.Expect(k.use(form{whole: true})).To(Succeed())
	g.Expect(k.Objects).To(HaveLen(6), "without the second Guestbook")
	g.Expect(k.use(form{ownNames: true})).To(Succeed())
	g.Expect(k.Objects[3]).To(Equal(object(t, guestbook("{name: mine, namespace: guests}", "{secret: key, selector: {app: other}}"))))
}
