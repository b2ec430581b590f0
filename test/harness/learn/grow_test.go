// SPDX-License-Identifier: Apache-2.0

package learn_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/learn"
)

const shop = `
type: object
properties:
  size: {type: integer}
  note: {type: string, minLength: 3}
  mode: {type: string, enum: [Fast, Slow]}
  storeRef: {type: object, properties: {name: {type: string}}}
  policy: {type: string, default: Keep}
  hosts: {type: array, maxItems: 3, items: {type: string, pattern: '^[a-z]+(-[0-9]+)?$'}}
  tags: {type: array, items: {type: string}}
  rules:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [port]
    items: {type: object, required: [port], properties: {port: {type: integer, minimum: 80}, text: {type: string}}}
  parameters: {type: object, additionalProperties: {type: string}}
  limits: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}
  single: {type: array, maxItems: 1, items: {type: string}}
  inner: {type: object, required: [hour], properties: {hour: {type: integer}, zone: {type: string}}}
`

// A grown sample is valid, and its first spec removes the additions.
func TestGrow(t *testing.T) {
	g := NewWithT(t)
	schema := &apiextensionsv1.JSONSchemaProps{}
	g.Expect(yaml.Unmarshal([]byte(shop), schema)).To(Succeed())
	for name, tc := range map[string]struct {
		sample, want string
		how          learn.Growth
		added        string
	}{
		"Empty": {"{}", `{hosts: [example, example-2], inner: {hour: 1, zone: example}, note: example,
			parameters: {example-1: example, example-2: example}, rules: [{port: 80}, {port: 82}],
			single: [example], size: 1, tags: [example, example-2]}`, learn.GrowAll,
			"hosts[] inner.hour inner.zone note parameters.example-1 parameters.example-2 rules[] single[] size tags[]"},
		"Given": {"{hosts: [a, b], parameters: {a: b}, rules: [{port: 90}]}",
			"{hosts: [a, b, a-3], parameters: {a: b, example-1: example}, rules: [{port: 90}, {port: 92}]}", learn.GrowGiven,
			"hosts[] parameters.example-1 rules[]"},
		"Limits":  {"{limits: {cpu: 1}}", "{limits: {cpu: 1}}", learn.GrowGiven, ""},
		"Full":    {"{hosts: [a, b, c], single: [x]}", "{hosts: [a, b, c], single: [x]}", learn.GrowGiven, ""},
		"Lines":   {`{tags: ["a: b\nc: d"]}`, `{tags: ["a: b\nc: d"]}`, learn.GrowGiven, ""},
		"Nothing": {"{}", "{}", learn.GrowGiven, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var sample map[string]any
			g.Expect(yaml.Unmarshal([]byte(tc.sample), &sample)).To(Succeed())
			got, added := learn.Grow(schema, sample, tc.how)
			want, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(tc.want, "\t", "")))
			g.Expect(err).NotTo(HaveOccurred())
			have, err := json.Marshal(got)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(have)).To(Equal(string(want)))
			g.Expect(strings.Join(added, " ")).To(Equal(tc.added))
		})
	}
}

const shops = `
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Shop, plural: shops}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      replicas: {type: integer, default: 1}, key: {type: string}, choice: {type: string, enum: [A, B]}}}}}}
`

// An entry of a list is one of those that the schema names.
func TestGrow_Enum(t *testing.T) {
	g := NewWithT(t)
	schema := &apiextensionsv1.JSONSchemaProps{}
	const types = "properties: {types: {type: array, items: {type: string, enum: [a, b]}}}"
	g.Expect(yaml.Unmarshal([]byte(types), schema)).To(Succeed())
	grown, added := learn.Grow(schema, map[string]any{"types": []any{"a"}}, learn.GrowGiven)
	g.Expect(grown).To(Equal(map[string]any{"types": []any{"a", "b"}}))
	g.Expect(added).To(HaveExactElements("types[]"))
}

// A kind without anything to grow has no change.
func TestScenarios_OfAKindThatScales(t *testing.T) {
	g := NewWithT(t)
	sample := learn.Sample{}
	for _, text := range []string{
		"{apiVersion: v1, kind: Secret, metadata: {name: key, labels: {of: shop}}}",
		"{apiVersion: example.com/v1, kind: Shop, metadata: {name: mine}, spec: {replicas: 2, key: key, choice: A}}",
	} {
		sample.Objects = append(sample.Objects, object(t, text))
	}
	kinds := kindsOf(t, []learn.Sample{sample}, definition(t, shops))
	g.Expect(kinds[0].Grow(learn.GrowAll)).To(BeFalse(), "it grew by %q", kinds[0].Added)
	files, err := (&learn.Draft{}).Scenarios(&kinds[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveExactElements(HaveField("Name", "shop-life")))
}

// A refusal costs the fields that it names, and no others.
func TestGrow_WithoutWhatIsRefused(t *testing.T) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	list := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}}
	schema := &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"note": text, "zone": text, "hosts": list}}
	_, added := learn.Grow(schema, map[string]any{}, learn.GrowAll)
	for message, want := range map[string][]string{
		`Thing "a" is invalid: spec.zone: Invalid value: "example": no zone`: {"hosts[]", "note"},
		`admission webhook denied the request: spec.hosts[1]: no host`:       {"note", "zone"},
		`the size is wrong`: {"hosts[]", "note", "zone"},
		`Invalid value: zone can only be set for a region`: {"hosts[]", "note"},
		`spec.note: no note without a zone`:                {"hosts[]", "zone"},
	} {
		_, rest := learn.Grow(schema, map[string]any{}, learn.GrowAll, learn.Named(added, message)...)
		if !slices.Equal(rest, want) {
			t.Errorf("%s: added %q, want %q", message, rest, want)
		}
	}
}
