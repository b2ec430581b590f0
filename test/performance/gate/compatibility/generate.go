package compatibility

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

const (
	// optional is how often in four a field that may be left out is set.
	optional = 3
	// items and length are how many more than the least a list and a string have at
	// most; at one time in eight a string is as long as it may be, up to longest.
	items, length, longest = 3, 40, 4096
	// letters are what a string without a pattern is made of.
	letters = "abcdefghijklmnopqrstuvwxyz0123456789-. ABCäß漢"
)

// generator makes values that a schema accepts, as far as that can be told without
// its expressions: what those refuse has to be thrown away.
type generator struct {
	rand *rand.Rand
	// corpus are values from examples by field. Of a field that only an expression
	// describes hardly any other value would be accepted.
	corpus map[string][]any
}

// value makes a value for a field.
func (g *generator) value(field string, s apiextensionsv1.JSONSchemaProps) any {
	if known := g.corpus[field]; len(known) > 0 && borrows(s) && g.rand.IntN(2) == 0 {
		return known[g.rand.IntN(len(known))]
	}
	if len(s.Enum) > 0 {
		return decoded(s.Enum[g.rand.IntN(len(s.Enum))])
	}
	switch {
	case s.XIntOrString || s.Type == "integer":
		return g.integer(s)
	case s.Type == "number":
		return float64(g.integer(s))
	case s.Type == "boolean":
		return g.rand.IntN(2) == 0
	case s.Type == "string":
		return g.text(s)
	case s.Type == "array" && s.Items != nil && s.Items.Schema != nil:
		return g.list(field, s)
	case s.Type == "object":
		return g.object(field, s)
	}
	return nil
}

// borrows says whether an example is a better guess than a value of our own.
func borrows(s apiextensionsv1.JSONSchemaProps) bool {
	free := s.Type == "string" && s.Pattern == "" && s.Format == "" && len(s.Enum) == 0
	return free || len(s.XValidations) > 0 && len(s.Properties) == 0
}

func (g *generator) object(field string, s apiextensionsv1.JSONSchemaProps) map[string]any {
	made := map[string]any{}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	// The order of a map would make the same seed give another value.
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(s.Required, name) || g.rand.IntN(4) < optional {
			made[name] = g.value(join(field, name), s.Properties[name])
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		for range g.count(s.MinProperties, s.MaxProperties, items) {
			name := g.text(apiextensionsv1.JSONSchemaProps{Pattern: "^[a-z]{1,20}$"})
			made[name] = g.value(field+"{}", *s.AdditionalProperties.Schema)
		}
	}
	return made
}

// list keeps only the first of elements that the API server takes for the same one.
func (g *generator) list(field string, s apiextensionsv1.JSONSchemaProps) []any {
	made := []any{}
	seen := map[string]bool{}
	for range g.count(s.MinItems, s.MaxItems, items) {
		element := g.value(field+"[]", *s.Items.Schema)
		key := asJSON(element)
		switch ptr.Deref(s.XListType, "atomic") {
		case "map":
			var keys []any
			for _, name := range s.XListMapKeys {
				if of, ok := element.(map[string]any); ok {
					keys = append(keys, of[name])
				}
			}
			key = asJSON(keys)
		case "atomic":
			key = ""
		}
		if key == "" || !seen[key] {
			made = append(made, element)
		}
		seen[key] = true
	}
	return made
}

func (g *generator) integer(s apiextensionsv1.JSONSchemaProps) int64 {
	most := int64(1) << 53 // what JSON's readers agree on
	if s.Format == "int32" {
		most = math.MaxInt32
	}
	least := -most
	if s.Minimum != nil {
		least = int64(math.Ceil(*s.Minimum))
	}
	if s.Maximum != nil {
		most = int64(math.Floor(*s.Maximum))
	}
	switch g.rand.IntN(4) {
	case 0:
		return least
	case 1:
		return most
	default:
		return least + g.rand.Int64N(max(most-least, 0)+1)
	}
}

func (g *generator) text(s apiextensionsv1.JSONSchemaProps) string {
	if s.Format == "date-time" {
		return time.Unix(g.rand.Int64N(1<<32), 0).UTC().Format(time.RFC3339)
	}
	if s.Pattern != "" {
		return g.matching(s)
	}
	n := g.count(s.MinLength, s.MaxLength, length)
	if s.MaxLength != nil && *s.MaxLength <= longest && g.rand.IntN(8) == 0 {
		n = int(*s.MaxLength)
	}
	var b strings.Builder
	all := []rune(letters)
	for range n {
		b.WriteRune(all[g.rand.IntN(len(all))])
	}
	return b.String()
}

// count is between the bounds, and not much above the least.
func (g *generator) count(least, most *int64, above int) int {
	from := int(ptr.Deref(least, 0))
	to := min(from+above, int(ptr.Deref(most, math.MaxInt32)))
	return from + g.rand.IntN(max(to-from, 0)+1)
}

func decoded(j apiextensionsv1.JSON) any {
	var value any
	if err := json.Unmarshal(j.Raw, &value); err != nil {
		return string(j.Raw)
	}
	return value
}

// remember adds the values of an example to the corpus.
func remember(corpus map[string][]any, example map[string]any) {
	eachValue("", example, func(field string, value any) { corpus[field] = append(corpus[field], value) })
}
