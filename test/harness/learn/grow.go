// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Growth is how far a sample is grown.
type Growth int

const (
	// GrowAll adds an entry to each list and map, and the fields that the sample leaves out.
	GrowAll Growth = iota
	// GrowGiven adds entries to the lists and maps of the sample only.
	GrowGiven
)

const (
	// maxAdded bounds the fields that are added to a sample, and maxDepth how deep below the spec.
	maxAdded, maxDepth = 12, 3
	// entries is the minimum number of entries of a list or map.
	entries = 2
)

// reference matches names of fields whose value probably names another object.
var reference = regexp.MustCompile(`(?i)(ref|refs|reference|references|name|names|class|namespace|account)$`)

// partsOfReference are fields of which an object that only names another one consists.
var partsOfReference = sets.New("name", "namespace", "kind", "apiVersion", "apiGroup", "group", "key", "optional", "uid",
	"fieldPath", "resourceVersion")

// refers reports whether a field probably names an object, or several. One that does not exist would only keep the
// operator waiting.
func refers(name string, schema *apiextensionsv1.JSONSchemaProps) bool {
	if schema.Items != nil && schema.Items.Schema != nil {
		schema = schema.Items.Schema
	}
	return reference.MatchString(name) ||
		len(schema.Properties) > 0 && partsOfReference.HasAll(slices.Collect(maps.Keys(schema.Properties))...)
}

// Grow returns a value with additional entries and fields, and their paths. When an operator gets
// the original value again, it has to remove their effects.
// Nothing is added at the paths in without.
func Grow(schema *apiextensionsv1.JSONSchemaProps, value map[string]any,
	how Growth, without ...string) (grown map[string]any, added []string) {
	g := &growing{how: how, without: without}
	grown = g.object(schema, runtime.DeepCopyJSON(value), "", 0)
	return grown, g.added
}

type growing struct {
	how     Growth
	without []string
	added   []string
}

// skips reports whether nothing may be added at a path.
func (g *growing) skips(path string) bool {
	return slices.Contains(g.without, strings.TrimPrefix(path, "."))
}

// fieldPath matches the path of a field in the message of a refusal, without indexes and keys.
var (
	fieldPath = regexp.MustCompile(`\bspec((\.[A-Za-z0-9_-]+)+)`)
	position  = regexp.MustCompile(`\[[^\]]*\]`)
)

// Named returns those of the added paths that the message of a refusal names, with what is below and
// above them. If it names none by its path, they are those whose last field it names.
func Named(added []string, message string) []string {
	message = position.ReplaceAllString(message, "")
	found := fieldPath.FindAllStringSubmatch(message, -1)
	named := paths(added, func(path string) bool {
		return slices.ContainsFunc(found, func(match []string) bool {
			field := strings.TrimPrefix(match[1], ".")
			return field == path || strings.HasPrefix(field, path+".") || strings.HasPrefix(path, field+".")
		})
	})
	if len(named) > 0 {
		return named
	}
	words := strings.FieldsFunc(message, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return paths(added, func(path string) bool { return slices.Contains(words, path[strings.LastIndex(path, ".")+1:]) })
}

// paths returns those of the added paths that are wanted, by the paths without indexes.
func paths(added []string, wanted func(path string) bool) (some []string) {
	for _, path := range added {
		if wanted(position.ReplaceAllString(path, "")) {
			some = append(some, path)
		}
	}
	return some
}

func (g *growing) note(path string) { g.added = append(g.added, strings.TrimPrefix(path, ".")) }

func (g *growing) object(schema *apiextensionsv1.JSONSchemaProps, given map[string]any, path string,
	depth int) map[string]any {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field, at := schema.Properties[name], path+"."+name
		value, there := given[name]
		switch {
		case there:
			given[name] = g.value(&field, value, at, depth+1)
		case g.how == GrowAll && depth < maxDepth && len(g.added) < maxAdded && !refers(name, &field) && !g.skips(at):
			if made := g.absent(&field, at, depth+1); made != nil {
				given[name] = made
			}
		}
	}
	if of := schema.AdditionalProperties; of != nil && of.Schema != nil {
		g.keys(schema, of.Schema, given, path)
	}
	return given
}

func (g *growing) value(schema *apiextensionsv1.JSONSchemaProps, value any, path string, depth int) any {
	switch value := value.(type) {
	case map[string]any:
		return g.object(schema, value, path, depth)
	case []any:
		if schema.Items != nil && schema.Items.Schema != nil {
			return g.list(schema, value, path)
		}
	}
	return value
}

// absent is a value for a field that the sample leaves out; nil if it is better left out. A choice
// or a switch changes what the operator does, and the API server sets a default.
func (g *growing) absent(schema *apiextensionsv1.JSONSchemaProps, path string, depth int) any {
	if schema.Default != nil || len(schema.Enum) > 0 || schema.XIntOrString {
		return nil
	}
	switch schema.Type {
	case "string", "integer":
		value := (&completion{}).madeUp(schema, path)
		g.note(path)
		return value
	case "array":
		if schema.Items != nil && schema.Items.Schema != nil {
			if list := g.list(schema, nil, path); len(list) > 0 {
				return list
			}
		}
	case "object":
		made := g.object(schema, map[string]any{}, path, depth)
		if completed, _ := Complete(schema, made); len(made) > 0 {
			return completed
		}
	}
	return nil
}

// list returns a list with an entry more, and with two at least.
func (g *growing) list(schema *apiextensionsv1.JSONSchemaProps, given []any, path string) []any {
	grown := slices.Clone(given)
	if g.skips(path + "[]") {
		return grown
	}
	for n := max(entries, len(given)+1) - len(given); n > 0; n-- {
		if schema.MaxItems != nil && int64(len(grown)) >= *schema.MaxItems {
			break
		}
		entry := (&completion{}).madeUp(schema.Items.Schema, path)
		if len(grown) > 0 {
			first := runtime.DeepCopyJSONValue(grown[0])
			other, distinct := another(schema.Items.Schema, first, len(grown)+1, schema.XListMapKeys)
			if !distinct || slices.ContainsFunc(grown, func(o any) bool { return reflect.DeepEqual(o, other) }) {
				break
			}
			entry = other
		}
		grown = append(grown, entry)
	}
	if len(grown) > len(given) {
		g.note(path + "[]")
	}
	return grown
}

// keys adds a key to a map, and two if it has none. A map of quantities has names of resources, and Kubernetes refuses
// others.
func (g *growing) keys(schema, of *apiextensionsv1.JSONSchemaProps, given map[string]any, path string) {
	if of.XIntOrString {
		return
	}
	wanted := max(entries, len(given)+1)
	for n := 1; len(given) < wanted && n <= wanted; n++ {
		if schema.MaxProperties != nil && int64(len(given)) >= *schema.MaxProperties {
			return
		}
		key := fmt.Sprintf("example-%d", n)
		if _, there := given[key]; there || g.skips(path+"."+key) {
			continue
		}
		given[key] = (&completion{}).madeUp(of, path)
		g.note(path + "." + key)
	}
}

// another changes an entry so that it differs from others: its keys, or else the fields that are
// texts and numbers. It reports whether it could.
func another(schema *apiextensionsv1.JSONSchemaProps, entry any, n int, keys []string) (any, bool) {
	switch value := entry.(type) {
	case string:
		other := cmp.Or(otherText(schema, value, n), value)
		return other, other != value
	case int64:
		if schema.Maximum == nil || float64(value)+float64(n) <= *schema.Maximum {
			return value + int64(n), true
		}
	case float64:
		if schema.Maximum == nil || value+float64(n) <= *schema.Maximum {
			return value + float64(n), true
		}
	case map[string]any:
		if len(keys) == 0 {
			keys = slices.Sorted(maps.Keys(schema.Properties))
		}
		changed := false
		for _, key := range keys {
			field := schema.Properties[key]
			inner, there := value[key]
			if !there && slices.Contains(schema.XListMapKeys, key) {
				inner = (&completion{}).madeUp(&field, key)
			}
			if inner == nil || len(field.Enum) > 0 {
				continue
			}
			if _, isObject := inner.(map[string]any); isObject {
				continue
			}
			other, distinct := another(&field, inner, n, nil)
			value[key], changed = other, changed || distinct
		}
		return value, changed
	}
	return entry, false
}

// otherText is a text that the schema allows and that differs; "" if none is found. A text of several lines is
// often YAML or a program, so it stays.
func otherText(schema *apiextensionsv1.JSONSchemaProps, text string, n int) string {
	if strings.Contains(text, "\n") {
		return ""
	}
	suffix := fmt.Sprint(n)
	others := slices.Concat([]string{text + "-" + suffix, text + suffix, suffix + text}, candidates)
	if len(schema.Enum) > 0 {
		others = make([]string, len(schema.Enum))
		for i, value := range schema.Enum {
			others[i], _ = decoded(value).(string) // they have the type of the text
		}
	}
	for _, other := range others {
		if other != text && fits(schema, other) {
			return other
		}
	}
	return ""
}
