package explore

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// largest is the largest number of elements or keys that a valid change makes. More would take
// longer than a run may.
const largest = 32

// Generate returns the changes of a valid spec, in a fixed order. A change is either valid or
// Invalid by the schema itself; rules (CEL) and webhooks may reject valid ones.
func Generate(schema apiextensionsv1.JSONSchemaProps, sample map[string]any) []Change {
	g := &generator{}
	g.inner(nil, "", &schema, sample)
	return withoutRepetition(g.changes)
}

// withoutRepetition drops changes that an earlier one equals, such as one more than 1 if the
// maximum is 2.
func withoutRepetition(changes []Change) []Change {
	var all []Change
	known := map[string]bool{}
	for _, c := range changes {
		path := strings.Join(c.Path, "/")
		result := fmt.Sprint(path, " ", c.At, c.removes(), c.Value)
		if !known[c.ID()] && !known[result] {
			known[c.ID()], known[result] = true, true
			all = append(all, c)
		}
	}
	return all
}

// generator collects changes.
type generator struct{ changes []Change }

// candidate is a value that a field may get.
type candidate struct {
	kind    string
	value   any
	invalid bool
}

// field adds the changes of one field, element or key, which the sample may not have.
func (g *generator) field(path []string, name string, s *apiextensionsv1.JSONSchemaProps, value any, present,
	required bool) {
	path = slices.Clone(path)
	if !present {
		g.absent(path, name, s)
		return
	}
	// The API server sets a default in place of a removed field before it validates.
	g.changes = append(g.changes, Change{Path: path, Field: name, Kind: Remove, Invalid: required && s.Default == nil,
		At: len(path)})
	for _, c := range candidates(s, value) {
		if !reflect.DeepEqual(c.value, value) {
			g.changes = append(g.changes, Change{Path: path, Field: name, Kind: c.kind, Invalid: c.invalid, Value: c.value,
				At: len(path)})
		}
	}
	g.inner(path, name, s, value)
}

// absent adds the changes that set a field: to a minimal value, and to each change of that.
func (g *generator) absent(path []string, name string, s *apiextensionsv1.JSONSchemaProps) {
	base := minimal(s)
	g.changes = append(g.changes, Change{Path: path, Field: name, Kind: "set", Value: base, At: len(path)})
	of := &generator{}
	of.field(nil, name, s, base, true, false)
	for _, c := range of.changes {
		value, err := replace(runtime.DeepCopyJSONValue(base), c.Path[:c.At], c.removes(), c.Value)
		if err == nil && value != nil {
			full := slices.Concat(path, c.Path)
			g.changes = append(g.changes, Change{Path: full, Field: c.Field, Kind: c.Kind, Invalid: c.Invalid, Value: value,
				At: len(path)})
		}
	}
}

// inner adds the changes of what a value consists of: its fields, its first element, its first and
// its last key.
func (g *generator) inner(path []string, name string, s *apiextensionsv1.JSONSchemaProps, value any) {
	switch value := value.(type) {
	case map[string]any:
		dot := name
		if dot != "" {
			dot += "."
		}
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[field]
			inner, present := value[field]
			g.field(append(path, field), dot+field, &p, inner, present, slices.Contains(s.Required, field))
		}
		if of := itemsOfMap(s); of != nil {
			keys := slices.Sorted(maps.Keys(value))
			for i, key := range keys {
				if i == 0 || i == len(keys)-1 {
					g.field(append(path, key), name+"{}", of, value[key], true, tooFew(s.MinProperties, len(keys)-1))
				}
			}
		}
	case []any:
		if of := itemsOf(s); of != nil && len(value) > 0 {
			g.field(append(path, strconv.Itoa(0)), name+"[]", of, value[0], true, tooFew(s.MinItems, len(value)-1))
		}
	}
}

func tooFew(bound *int64, n int) bool { return bound != nil && int64(n) < *bound }

func itemsOf(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func itemsOfMap(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

// candidates returns the values that a field with a value may get instead.
func candidates(s *apiextensionsv1.JSONSchemaProps, value any) []candidate {
	if s.XIntOrString {
		return []candidate{
			{"number", int64(1), false}, {"percent", "50%", false}, {"type", true, true},
		}
	}
	if len(s.Enum) > 0 {
		return enumerated(s)
	}
	switch s.Type {
	case "string":
		text, _ := value.(string)
		return changedText(s, text)
	case "integer", "number":
		return numbers(s, value)
	case "boolean":
		on, _ := value.(bool)
		return []candidate{{"flip", !on, false}, {"type", "yes", true}}
	case "array":
		list, _ := value.([]any)
		return lists(s, list)
	case "object":
		object, _ := value.(map[string]any)
		return objects(s, object)
	}
	return nil
}

// enumerated returns every value of an enumeration, and one outside.
func enumerated(s *apiextensionsv1.JSONSchemaProps) []candidate {
	var all []candidate
	for _, raw := range s.Enum {
		value := decode(raw)
		all = append(all, candidate{"enum-" + escaped(fmt.Sprint(value)), value, false})
	}
	return append(all, candidate{"not-in-enum", "NotInTheEnumeration", true})
}

// numbers returns the bounds of a number, the values beyond them, and its neighbors.
func numbers(s *apiextensionsv1.JSONSchemaProps, value any) []candidate {
	var all []candidate
	as := func(f float64) any {
		if s.Type == "integer" {
			return int64(f)
		}
		return f
	}
	beyond := func(bound *float64, exclusive bool, kind string, direction float64) {
		if bound == nil {
			return
		}
		all = append(all,
			candidate{kind, as(*bound), exclusive},
			candidate{"beyond-" + kind, as(*bound + direction), true},
			candidate{"inside-" + kind, as(*bound - direction), !withinBounds(s, *bound-direction)})
	}
	beyond(s.Minimum, s.ExclusiveMinimum, "min", -1)
	beyond(s.Maximum, s.ExclusiveMaximum, "max", 1)
	now := 0.0
	switch n := value.(type) {
	case int64:
		now = float64(n)
	case float64:
		now = n
	}
	for kind, v := range map[string]float64{"one-more": now + 1, "one-less": now - 1, "zero": 0} {
		if withinBounds(s, v) {
			all = append(all, candidate{kind, as(v), false})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return strings.Compare(a.kind, b.kind) })
	return append(all, candidate{"type", "many", true})
}

func withinBounds(s *apiextensionsv1.JSONSchemaProps, v float64) bool {
	low := s.Minimum == nil || v > *s.Minimum || v == *s.Minimum && !s.ExclusiveMinimum
	high := s.Maximum == nil || v < *s.Maximum || v == *s.Maximum && !s.ExclusiveMaximum
	return low && high
}

// lists returns the list grown, shrunk, reordered, emptied, with a duplicate, and at its bounds.
func lists(s *apiextensionsv1.JSONSchemaProps, list []any) []candidate {
	of := itemsOf(s)
	all := []candidate{{"empty", []any{}, tooFew(s.MinItems, 0)}, {"type", "a list", true}}
	if of == nil || len(list) == 0 {
		return all
	}
	grown := func(n int) []any {
		longer := runtime.DeepCopyJSONValue(list).([]any)
		for i := len(list); i < n; i++ {
			longer = append(longer, varied(of, s.XListMapKeys, list[len(list)-1], i))
		}
		return longer
	}
	tooMany := func(n int) bool { return s.MaxItems != nil && int64(n) > *s.MaxItems }
	reversed := slices.Clone(list)
	slices.Reverse(reversed)
	unique := s.XListType != nil && (*s.XListType == "set" || *s.XListType == "map")
	all = append(all,
		candidate{"grow", grown(len(list) + 1), tooMany(len(list) + 1)},
		candidate{"shrink", slices.Clone(list[:len(list)-1]), tooFew(s.MinItems, len(list)-1)},
		candidate{"reverse", reversed, false},
		candidate{"duplicate", append(slices.Clone(list), list[0]), unique || tooMany(len(list)+1)})
	if s.MaxItems != nil {
		most := int(*s.MaxItems)
		if most <= largest && most > len(list) {
			all = append(all, candidate{"max", grown(most), false})
		}
		if most <= 8*largest {
			all = append(all, candidate{"beyond-max", grown(most + 1), true})
		}
	}
	return all
}

// objects returns an object emptied, and a map grown.
func objects(s *apiextensionsv1.JSONSchemaProps, object map[string]any) []candidate {
	all := []candidate{{"type", "an object", true}}
	if s.Properties != nil {
		missing := slices.ContainsFunc(s.Required, func(name string) bool { return s.Properties[name].Default == nil })
		return append(all, candidate{"empty", map[string]any{}, missing})
	}
	all = append(all, candidate{"empty", map[string]any{}, tooFew(s.MinProperties, 0)})
	if of := itemsOfMap(s); of != nil {
		keys := slices.Sorted(maps.Keys(object))
		key, value := "a", minimal(of)
		if len(keys) > 0 {
			// A rule for keys most often concerns their end, as in *.yaml.
			key, value = "a"+keys[0], object[keys[0]]
		}
		grown := runtime.DeepCopyJSON(object)
		grown[key] = runtime.DeepCopyJSONValue(value)
		all = append(all, candidate{"grow", grown, s.MaxProperties != nil && int64(len(grown)) > *s.MaxProperties})
	}
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		grown := runtime.DeepCopyJSON(object)
		if grown == nil {
			grown = map[string]any{}
		}
		grown["unknown"] = "value"
		all = append(all, candidate{"unknown-field", grown, false})
	}
	return all
}
