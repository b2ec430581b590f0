// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

const shop = `
type: object
properties:
  size: {type: integer}
  note: {type: string, minLength: 3}
  mode: {type: string, enum: [Fast, Slow]}
  storeRef: {type: object, properties: {name: {type: string}}}
  sealed: {type: array, items: {type: object, properties: {name: {type: string}, key: {type: string}}}}
  env: {type: array, items: {type: object, required: [name], properties: {name: {type: string}, value: {type: string}}}}
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
  days: {type: array, items: {type: string, enum: [Sunday, Monday]}}
  inner: {type: object, required: [hour], properties: {hour: {type: integer}, zone: {type: string}}}
`

// A grown sample is valid, and its first spec removes the additions.
func TestGrow(t *testing.T) {
	schema := schemaOf(t, shop)
	for name, tc := range map[string]struct {
		sample, want string
		how          Growth
		added        string
	}{
		"Empty": {"{}", `{days: [Sunday, Monday], env: [{name: example}, {name: example-2}], hosts: [example, example-2], inner: {hour: 1, zone: example}, note: example,
			parameters: {example-1: example, example-2: example}, rules: [{port: 80}, {port: 82}],
			single: [example], size: 1, tags: [example, example-2]}`, GrowAll,
			"days[] env[] hosts[] inner.hour inner.zone note parameters.example-1 parameters.example-2 rules[] single[] size tags[]"},
		"Given": {"{hosts: [a, b], parameters: {a: b}, rules: [{port: 90}]}",
			"{hosts: [a, b, a-3], parameters: {a: b, example-1: example}, rules: [{port: 90}, {port: 92}]}", GrowGiven,
			"hosts[] parameters.example-1 rules[]"},
		"Enum":    {"{days: [Sunday]}", "{days: [Sunday, Monday]}", GrowGiven, "days[]"},
		"Limits":  {"{limits: {cpu: 1}}", "{limits: {cpu: 1}}", GrowGiven, ""},
		"Full":    {"{hosts: [a, b, c], single: [x]}", "{hosts: [a, b, c], single: [x]}", GrowGiven, ""},
		"Lines":   {`{tags: ["a: b\nc: d"]}`, `{tags: ["a: b\nc: d"]}`, GrowGiven, ""},
		"Nothing": {"{}", "{}", GrowGiven, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var sample map[string]any
			g.Expect(yaml.Unmarshal([]byte(tc.sample), &sample)).To(Succeed())
			got, added := Grow(schema, sample, tc.how)
			text, err := yaml.Marshal(got)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(MatchYAML(strings.ReplaceAll(tc.want, "\t", "")))
			g.Expect(strings.Join(added, " ")).To(Equal(tc.added))
		})
	}
}

// A kind without anything to grow has no change.
func TestScenarios_OfAKindThatCannotGrow(t *testing.T) {
	g := NewWithT(t)
	sample := sampleOf(t, guestbook("{name: mine}", "{secret: key}"))
	kinds := kindsOf(t, []Sample{sample}, definition(t, guestbooks))
	g.Expect(kinds[0].Grow(GrowGiven)).To(BeFalse(), "it grew by %q", kinds[0].Added)
	g.Expect((&Draft{}).Scenarios(&kinds[0])).To(HaveExactElements(HaveField("Name", "guestbook-life")))
}

// A refusal costs the fields that it names, and no others.
func TestGrow_WithoutWhatIsRefused(t *testing.T) {
	schema := schemaOf(t, "properties: {note: {type: string}, zone: {type: string}, hosts: {type: array, items: {type: string}}}")
	_, added := Grow(schema, map[string]any{}, GrowAll)
	for message, want := range map[string][]string{
		`Thing "a" is invalid: spec.zone: Invalid value: "example": no zone`: {"hosts[]", "note"},
		`admission webhook denied the request: spec.hosts[1]: no host`:       {"note", "zone"},
		`the size is wrong`: {"hosts[]", "note", "zone"},
		`Invalid value: zone can only be set for a region`: {"hosts[]", "note"},
		`spec.note: no note without a zone`:                {"hosts[]", "zone"},
	} {
		_, rest := Grow(schema, map[string]any{}, GrowAll, Named(added, message)...)
		if !slices.Equal(rest, want) {
			t.Errorf("%s: added %q, want %q", message, rest, want)
		}
	}
}
