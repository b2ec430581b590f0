// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// exampleMark begins the last line of a description, a YAML value.
const exampleMark = "\nExample: "

// kubectl explain shows the descriptions of the CRDs, and no other documentation.
func TestFieldsAreDocumented(t *testing.T) {
	crds := all[*apiextensionsv1.CustomResourceDefinition](render(t, "default"))
	if len(crds) != 3 {
		t.Fatalf("%d CustomResourceDefinitions, want 3", len(crds))
	}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			for _, problem := range undocumented(crd.Spec.Names.Kind, *version.Schema.OpenAPIV3Schema) {
				t.Error(problem)
			}
		}
	}
}

// A column shows the field that it is called after.
func TestColumnsShowTheirFields(t *testing.T) {
	for _, crd := range all[*apiextensionsv1.CustomResourceDefinition](render(t, "default")) {
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			name := strings.ToLower(column.Name)
			if name == "age" {
				name = "creationtimestamp"
			}
			if !strings.Contains(strings.ToLower(column.JSONPath), name) {
				t.Errorf("the column %s of %s shows %s", column.Name, crd.Spec.Names.Kind, column.JSONPath)
			}
		}
	}
}

// undocumented returns gaps in the documentation of a kind: each field needs a description, and
// each field of the spec a valid example. The API server documents metadata.
func undocumented(kind string, schema apiextensionsv1.JSONSchemaProps) []string {
	var problems []string
	if schema.Description == "" {
		problems = append(problems, kind+" has no description")
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if name != "metadata" {
			problems = append(problems, undocumentedField(kind+"."+name, schema.Properties[name], name == "spec")...)
		}
	}
	return problems
}

func undocumentedField(path string, schema apiextensionsv1.JSONSchemaProps, isSpec bool) []string {
	var problems []string
	text, example, found := strings.Cut(schema.Description, exampleMark)
	switch {
	case text == "":
		problems = append(problems, path+" has no description")
	case isSpec && !found:
		problems = append(problems, path+" has no example")
	case isSpec:
		if err := validExample(example, schema); err != nil {
			problems = append(problems, fmt.Sprintf("%s has the example %s: %v", path, example, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		problems = append(problems, undocumentedField(path+"."+name, schema.Properties[name], isSpec)...)
	}
	if schema.Items != nil {
		problems = append(problems, undocumentedField(path+"[]", *schema.Items.Schema, isSpec)...)
	}
	if schema.AdditionalProperties != nil {
		problems = append(problems, undocumentedField(path+"{}", *schema.AdditionalProperties.Schema, isSpec)...)
	}
	return problems
}

// validExample returns why the API server would reject the value, by the schema without its CEL rules.
func validExample(text string, schema apiextensionsv1.JSONSchemaProps) error {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("parsing it: %w", err)
	}
	fields, err := json.Marshal(schema)
	if err != nil {
		return fmt.Errorf("writing the schema: %w", err)
	}
	var openAPI spec.Schema
	if err := json.Unmarshal(fields, &openAPI); err != nil {
		return fmt.Errorf("reading the schema: %w", err)
	}
	return validate.NewSchemaValidator(&openAPI, nil, "", strfmt.Default).Validate(value).AsError()
}

func TestUndocumented(t *testing.T) {
	documented := func(description string, with ...apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		s := apiextensionsv1.JSONSchemaProps{Type: "string",
			Enum: []apiextensionsv1.JSON{{Raw: []byte(`"A"`)}, {Raw: []byte(`"B"`)}}, Description: description}
		if len(with) > 0 {
			s.Type, s.Enum, s.Properties = "object", nil, map[string]apiextensionsv1.JSONSchemaProps{"x": with[0]}
		}
		return s
	}
	kind := func(spec, status apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Description: "a kind", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"metadata": {Type: "object"}, "spec": spec, "status": status}}
	}
	const specText, statusText = "the spec\nExample: {x: A}", "the status"
	for name, tc := range map[string]struct {
		schema apiextensionsv1.JSONSchemaProps
		want   string
	}{
		"all documented": {kind(documented(specText, documented("x\nExample: A")),
			documented(statusText, documented("x"))), ""},
		"no example": {kind(documented(specText, documented("x")), documented(statusText)),
			"K.spec.x has no example"},
		"an empty description": {kind(documented(specText, documented("\nExample: A")), documented(statusText)),
			"K.spec.x has no description"},
		"a value not allowed": {kind(documented(specText, documented("x\nExample: C")), documented(statusText)),
			"K.spec.x has the example C"},
		"a value not of a type": {kind(documented("the spec\nExample: 1", documented("x\nExample: A")),
			documented(statusText)), "K.spec has the example 1"},
		"no YAML": {kind(documented("the spec\nExample: {", documented("x\nExample: A")),
			documented(statusText)), "K.spec has the example {"},
		"a leaf of the status": {kind(documented(specText, documented("x\nExample: A")),
			documented(statusText, documented(""))), "K.status.x has no description"},
	} {
		got := undocumented("K", tc.schema)
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tc.want)) {
			t.Errorf("%s: %q, want one problem %q", name, got, tc.want)
		}
	}
}
