package explore

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Change is one change of a spec.
type Change struct {
	// Path leads to the field: names of fields, keys of maps and indexes of lists.
	Path []string
	// Field is the path in the schema, as in admins[].name and markdowns{}.
	Field string
	// Kind describes the change, for example max or reverse.
	Kind string
	// Invalid means that the schema forbids the result.
	Invalid bool
	// Value replaces the value at the first At elements of Path.
	Value any
	At    int
}

// Remove is the kind of a change that removes a field, an element or a key.
const Remove = "remove"

// ID identifies the change among those of a schema and a sample, and has no spaces.
func (c Change) ID() string {
	var b strings.Builder
	for _, token := range c.Path {
		b.WriteString("/" + escaped(token))
	}
	return b.String() + ":" + c.Kind
}

// escaped is a text as one word that neither a shell nor make changes between single quotes.
func escaped(text string) string { return strings.ReplaceAll(url.PathEscape(text), "$", "%24") }

// Apply returns the changed spec. It does not change spec. A path that spec does not have is an
// error.
func (c Change) Apply(spec map[string]any) (map[string]any, error) {
	changed, err := replace(runtime.DeepCopyJSON(spec), c.Path[:c.At], c.removes(), runtime.DeepCopyJSONValue(c.Value))
	if err != nil {
		return nil, fmt.Errorf("making the change %s: %w", c.ID(), err)
	}
	object, ok := changed.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("making the change %s: a spec is an object", c.ID())
	}
	return object, nil
}

// removes reports whether nothing replaces the value.
func (c Change) removes() bool { return c.Kind == Remove && c.At == len(c.Path) }

// replace returns the value with the part at a path replaced or removed.
func replace(in any, path []string, remove bool, by any) (any, error) {
	if len(path) == 0 {
		return by, nil
	}
	last := len(path) == 1
	switch in := in.(type) {
	case map[string]any:
		if last && remove {
			delete(in, path[0])
			return in, nil
		}
		inner, err := replace(in[path[0]], path[1:], remove, by)
		in[path[0]] = inner
		return in, err
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(in) {
			return nil, fmt.Errorf("a list of %d has no element %q", len(in), path[0])
		}
		if last && remove {
			return slices.Delete(in, i, i+1), nil
		}
		in[i], err = replace(in[i], path[1:], remove, by)
		return in, err
	}
	return nil, fmt.Errorf("%T has no field %q", in, path[0])
}

// MergePatch returns the JSON merge patch that leads to spec from any of the earlier specs.
func MergePatch(spec map[string]any, earlier ...map[string]any) map[string]any {
	patch := map[string]any{}
	for name, value := range spec {
		inner, isObject := value.(map[string]any)
		if !isObject {
			patch[name] = value
			continue
		}
		var before []map[string]any
		for _, e := range earlier {
			if object, ok := e[name].(map[string]any); ok {
				before = append(before, object)
			}
		}
		patch[name] = MergePatch(inner, before...)
	}
	for _, e := range earlier {
		for name := range e {
			if _, there := spec[name]; !there {
				patch[name] = nil
			}
		}
	}
	return patch
}
