// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func schemaOf(t *testing.T, text string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	g := NewWithT(t)
	s := &apiextensionsv1.JSONSchemaProps{}
	g.Expect(yaml.UnmarshalStrict([]byte(text), s)).To(Succeed())
	return s
}

// requires is the schema of an object that has to have the field a.
func requires(field string) string {
	return "{type: object, required: [a], properties: {a: " + field + "}}"
}

func TestComplete(t *testing.T) {
	for name, tc := range map[string]struct {
		schema, given, want string
		guesses             []string
	}{
		"NothingRequired": {"{type: object, properties: {a: {type: string}}}", "{}", "{}", nil},
		"Given":           {requires("{type: string}"), "{a: x, b: 1}", "{a: x, b: 1}", nil},
		"NullIsLeftOut": {"{type: object, required: [spec], properties: {spec: {type: object}}}", "{spec: null, other: null}",
			"{spec: {}}", []string{"spec"}},
		"Inner": {
			"{type: object, properties: {spec: {type: object, required: [size], properties: {size: {type: integer, minimum: 3}}}}}",
			"{spec: {}}", "{spec: {size: 3}}", []string{"spec.size"},
		},
		"Default":      {requires("{type: string, default: x}"), "{}", "{}", nil},
		"Enum":         {requires("{type: string, enum: [Retain, Delete]}"), "{}", "{a: Retain}", []string{"a"}},
		"AboveMinimum": {requires("{type: integer, minimum: 5, exclusiveMinimum: true}"), "{}", "{a: 6}", []string{"a"}},
		"BelowMaximum": {requires("{type: number, maximum: 0.5}"), "{}", "{a: 0.5}", []string{"a"}},
		"Multiple":     {requires("{type: integer, multipleOf: 512}"), "{}", "{a: 512}", []string{"a"}},
		"Boolean":      {requires("{type: boolean}"), "{}", "{a: false}", []string{"a"}},
		"IntOrString":  {requires("{x-kubernetes-int-or-string: true}"), "{}", "{a: 1}", []string{"a"}},
		"Format":       {requires("{type: string, format: duration}"), "{}", "{a: 1m}", []string{"a"}},
		"DurationByTheName": {"{type: object, required: [pollInterval, intervals], properties: {pollInterval: {type: string}, intervals: {type: string}}}", "{}",
			"{pollInterval: 1m, intervals: example}", []string{"pollInterval", "intervals"}},
		"NoDurationByThePattern": {"{type: object, required: [ttl], properties: {ttl: {type: string, pattern: '^[0-9]+$'}}}", "{}",
			"{ttl: '1'}", []string{"ttl"}},
		"PlainPattern":   {requires("{type: string, pattern: '^https://'}"), "{}", "{a: 'https://example.com'}", []string{"a"}},
		"MinimalLength":  {requires("{type: string, minLength: 30}"), "{}", "{a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}", []string{"a"}},
		"MinimalItems":   {requires("{type: array, minItems: 2, items: {type: string}}"), "{}", "{a: [example, example]}", []string{"a[]", "a[]", "a"}},
		"ItemsCompleted": {"{type: object, properties: {a: {type: array, items: {type: object, required: [name], properties: {name: {type: string}}}}}}", "{a: [{}]}", "{a: [{name: example}]}", []string{"a[].name"}},
		"EmptyList":      {"{type: object, properties: {a: {type: array, items: {type: string}}}}", "{a: []}", "{a: []}", nil},
		"MapCompleted":   {"{type: object, additionalProperties: {type: object, required: [name], properties: {name: {type: string}}}}", "{x: {}}", "{x: {name: example}}", []string{"x.name"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var given any
			g.Expect(yaml.Unmarshal([]byte(tc.given), &given)).To(Succeed())
			got, guesses := Complete(schemaOf(t, tc.schema), given)
			text, err := yaml.Marshal(got)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(MatchYAML(tc.want))
			g.Expect(guesses).To(BeComparableTo(tc.guesses))
		})
	}
}

// A pattern that no common text matches gets a generated one, the same each time.
func TestComplete_GeneratesForAPattern(t *testing.T) {
	g := NewWithT(t)
	const pattern = `^arn:[a-z]{3}:[0-9]{12}$`
	s := schemaOf(t, "{type: string, pattern: '"+pattern+"', maxLength: 20}")
	got, _ := Complete(s, nil)
	text, _ := got.(string)
	g.Expect(text).To(MatchRegexp(pattern))
	again, _ := Complete(s, nil)
	g.Expect(again).To(Equal(got))
}
