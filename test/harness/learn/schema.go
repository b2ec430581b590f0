// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"pgregory.net/rapid"
)

// candidates are texts that many patterns and formats accept, the plainest first.
var candidates = []string{
	"example", "a", "example.com", "1", "1Gi", "1m", "https://example.com", "user@example.com", "10.0.0.1", "10.0.0.0/24",
	"2030-01-01T00:00:00Z", "*/5 * * * *", "example/a", "a:b", "v1", "1.2.3", "/a", "A",
}

// formats are values of formats that the API server checks.
var formats = map[string]string{
	"date-time": "2030-01-01T00:00:00Z", "datetime": "2030-01-01T00:00:00Z", "date": "2030-01-01", "duration": "1m",
	"uri":   "https://example.com",
	"email": "user@example.com", "hostname": "example.com", "ipv4": "10.0.0.1", "ipv6": "fd00::1", "cidr": "10.0.0.0/24",
	"byte": "ZXhhbXBsZQ==", "uuid": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
}

// duration matches names of fields whose text is probably a duration, which no schema needs to say.
var duration = regexp.MustCompile(`(?i)(interval|duration|timeout|period|ttl|delay|jitter)$`)

// maxExamples bounds the search for a text that a pattern accepts.
const maxExamples = 50

// completion fills in what a schema requires.
type completion struct{ guesses []string }

// Complete returns a value with everything that its schema requires, and the paths of the fields
// that it had to make up. A nil value is as small as the schema allows. Nulls are left out, as the
// API server does.
func Complete(schema *apiextensionsv1.JSONSchemaProps, value any) (completed any, guesses []string) {
	c := &completion{}
	completed = c.value(schema, value, "")
	return completed, c.guesses
}

func (c *completion) value(schema *apiextensionsv1.JSONSchemaProps, value any, path string) any {
	switch given := value.(type) {
	case nil:
		return c.madeUp(schema, path)
	case map[string]any:
		return c.object(schema, given, path)
	case []any:
		if schema.Items == nil || schema.Items.Schema == nil {
			return given
		}
		all := make([]any, 0, len(given)) // the API server refuses null for an empty list
		for _, item := range given {
			all = append(all, c.value(schema.Items.Schema, item, path+"[]"))
		}
		return all
	}
	return value
}

// object keeps the fields that are given and adds those that are required. The API server adds
// those with a default.
func (c *completion) object(schema *apiextensionsv1.JSONSchemaProps, given map[string]any, path string) map[string]any {
	all := map[string]any{}
	for name, value := range given {
		field, known := schema.Properties[name]
		switch {
		case value == nil:
		case known:
			all[name] = c.value(&field, value, path+"."+name)
		case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
			all[name] = c.value(schema.AdditionalProperties.Schema, value, path+"."+name)
		default:
			all[name] = value
		}
	}
	for _, name := range schema.Required {
		field, known := schema.Properties[name]
		if _, there := all[name]; there || !known || field.Default != nil {
			continue
		}
		all[name] = c.madeUp(&field, path+"."+name)
	}
	return all
}

// madeUp is the plainest value of a schema.
func (c *completion) madeUp(schema *apiextensionsv1.JSONSchemaProps, path string) any {
	guess := func(value any) any {
		c.guesses = append(c.guesses, strings.TrimPrefix(path, "."))
		return value
	}
	switch {
	case schema.Default != nil:
		return decoded(*schema.Default)
	case len(schema.Enum) > 0:
		return guess(decoded(schema.Enum[0]))
	case schema.XIntOrString:
		return guess(int64(1))
	}
	switch schema.Type {
	case "object":
		made := c.object(schema, nil, path)
		if len(schema.Required) == 0 {
			return guess(made)
		}
		return made
	case "array":
		made := []any{}
		for schema.MinItems != nil && int64(len(made)) < *schema.MinItems && schema.Items != nil &&
			schema.Items.Schema != nil {
			made = append(made, c.madeUp(schema.Items.Schema, path+"[]"))
		}
		return guess(made)
	case "integer":
		return guess(int64(number(schema)))
	case "number":
		return guess(number(schema))
	case "boolean":
		return guess(false)
	case "string":
		if duration.MatchString(path) && fits(schema, "1m") {
			return guess("1m")
		}
		return guess(text(schema))
	}
	return guess(map[string]any{})
}

func decoded(value apiextensionsv1.JSON) any {
	var v any
	if err := json.Unmarshal(value.Raw, &v); err != nil {
		return nil // the API server accepted it with the definition
	}
	return v
}

// number is the smallest positive number that the bounds allow, or the greatest.
func number(schema *apiextensionsv1.JSONSchemaProps) float64 {
	n := 1.0
	if schema.Minimum != nil {
		n = math.Max(n, *schema.Minimum)
		if schema.ExclusiveMinimum && n == *schema.Minimum {
			n++
		}
	}
	if schema.Maximum != nil && n > *schema.Maximum {
		n = *schema.Maximum
	}
	if schema.MultipleOf != nil && *schema.MultipleOf > 0 {
		n = math.Ceil(n / *schema.MultipleOf) * *schema.MultipleOf
	}
	return n
}

// text is a text that the pattern and the lengths allow, if one is found.
func text(schema *apiextensionsv1.JSONSchemaProps) string {
	if value, known := formats[schema.Format]; known {
		return value
	}
	all := slices.Clone(candidates)
	if schema.MinLength != nil {
		all = append(all, strings.Repeat("a", int(min(*schema.MinLength, math.MaxUint16))))
	}
	if i := slices.IndexFunc(all, func(s string) bool { return fits(schema, s) }); i >= 0 {
		return all[i]
	}
	for seed := range maxExamples {
		if example := rapid.StringMatching(schema.Pattern).Example(seed); fits(schema, example) {
			return example
		}
	}
	return candidates[0]
}

// fits reports whether a schema accepts a text. Braces mark placeholders for names.
func fits(schema *apiextensionsv1.JSONSchemaProps, text string) bool {
	text = strings.NewReplacer("{", "", "}", "").Replace(text)
	pattern, err := regexp.Compile(schema.Pattern)
	_, formatted := formats[schema.Format]
	return err == nil && pattern.MatchString(text) && !formatted &&
		(schema.MinLength == nil || int64(len(text)) >= *schema.MinLength) &&
		(schema.MaxLength == nil || int64(len(text)) <= *schema.MaxLength)
}

// prune removes the fields that a schema lacks, and returns their paths. The API server does so for a
// create, and refuses an apply. A schema that is not structural removes nothing.
func prune(schema *apiextensionsv1.JSONSchemaProps, object map[string]any) []string {
	internal := &apiextensions.JSONSchemaProps{}
	if apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil) != nil {
		return nil
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil
	}
	return pruning.PruneWithOptions(object, structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}
