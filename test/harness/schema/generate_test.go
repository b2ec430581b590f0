// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// object is a JSON object.
type object = map[string]any

// module is the path of the module whose comments become descriptions.
const module = "leasehold.dev/test/harness/"

// rule has the rules of a type's validation that its fields do not show.
type rule struct {
	// required replaces the fields without omitempty.
	required []string
	// omitted are fields that a file must not have.
	omitted []string
	// enums are the values of fields, or of their items.
	enums map[string][]string
	// oneOf are sets of fields, exactly one of which is complete.
	oneOf [][]string
}

// rules are by the names of definitions.
func rules() map[string]rule {
	var invariants []string
	for _, i := range invariant.All() {
		invariants = append(invariants, i.Name)
	}
	actions := [][]string{{"apply"}, {"patch"}, {"scale"}, {"delete"}, {"wait"}, {"quiesce"}, {"sleep"}, {"external"},
		{"may"}, {"attack"}}
	return map[string]rule{
		"scenario.Scenario":   {required: []string{"name", "invariants", "steps"}, enums: map[string][]string{"invariants": invariants}},
		"scenario.Step":       {oneOf: actions},
		"scenario.Wait":       {oneOf: [][]string{{"condition"}, {"field", "value"}, {"current"}, {"exists"}, {"gone"}}},
		"scenario.Access":     {required: []string{"user", "verb", "resource"}},
		"scenario.Attack":     {oneOf: [][]string{{"apply"}, {"patch"}}},
		"history.Key":         {required: []string{"name"}}, // the Lease, whose resource is fixed
		"invariant.Contract":  {required: []string{"lease", "kinds"}, omitted: []string{"watched", "except"}},
		"invariant.Exception": {enums: map[string][]string{"invariant": invariants}},
	}
}

// special are the schemas of types with a JSON form of their own.
var special = map[reflect.Type]object{
	reflect.TypeFor[metav1.Duration](): {
		"type": "string", "pattern": `^(0|([0-9]*\.?[0-9]+(ns|us|µs|ms|s|m|h))+)$`, "examples": []string{"2s"}},
	reflect.TypeFor[resource.Quantity](): {"type": []string{"string", "number"}, "examples": []string{"64Mi"}},
	// Values of a chart: a file, or the values themselves.
	reflect.TypeFor[json.RawMessage]():    {"type": []string{"string", "object"}},
	reflect.TypeFor[scenario.Refusal]():   {"enum": []any{true, string(scenario.MayRefuse)}},
	reflect.TypeFor[scenario.FaultName](): {"enum": run.Faults()},
}

// generator makes the schema of a type and of those that it refers to.
type generator struct {
	rules       map[string]rule
	definitions object
	comments    map[string]map[string]string // by package, then by type or type.Field
}

// generate returns the schema of a file, indented.
func generate(title string, of reflect.Type) ([]byte, error) {
	g := &generator{rules: rules(), definitions: object{}, comments: map[string]map[string]string{}}
	root, err := g.schemaOf(of)
	if err != nil {
		return nil, err
	}
	schema := object{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": title,
		"definitions": g.definitions, "allOf": []any{root},
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

// schemaOf returns the schema of a type: that of a struct is a reference to its definition.
func (g *generator) schemaOf(t reflect.Type) (object, error) {
	if known, is := special[t]; is {
		return known, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.schemaOf(t.Elem())
	case reflect.String:
		return object{"type": "string"}, nil
	case reflect.Bool:
		return object{"type": "boolean"}, nil
	case reflect.Int, reflect.Int32:
		return object{"type": "integer", "minimum": 0}, nil
	case reflect.Interface:
		return object{}, nil
	case reflect.Slice:
		items, err := g.schemaOf(t.Elem())
		return object{"type": "array", "items": items}, err
	case reflect.Map:
		values, err := g.schemaOf(t.Elem())
		return object{"type": "object", "additionalProperties": values}, err
	case reflect.Struct:
		return g.reference(t)
	}
	return nil, fmt.Errorf("no schema for the type %s", t)
}

// reference returns a reference to the definition of a struct, which it makes at the first one.
func (g *generator) reference(t reflect.Type) (object, error) {
	name := path.Base(t.PkgPath()) + "." + t.Name()
	if _, known := g.definitions[name]; !known {
		definition := object{"type": "object", "additionalProperties": false}
		g.definitions[name] = definition
		properties, required := object{}, map[string]bool{}
		if err := g.addFields(t, properties, required); err != nil {
			return nil, err
		}
		r := g.rules[name]
		for _, field := range r.omitted {
			delete(properties, field)
			delete(required, field)
		}
		for field, values := range r.enums {
			limit(properties[field].(object), values)
		}
		definition["properties"] = properties
		if r.required == nil {
			r.required = slices.Sorted(maps.Keys(required))
		}
		if len(r.required) > 0 {
			definition["required"] = r.required
		}
		var alternatives []any
		for _, fields := range r.oneOf {
			alternatives = append(alternatives, object{"required": fields})
		}
		if len(alternatives) > 0 {
			definition["oneOf"] = alternatives
		}
	}
	return object{"$ref": "#/definitions/" + name}, nil
}

// limit restricts a field, or the items of a list, to some values.
func limit(field object, values []string) {
	if items, isList := field["items"].(object); isList {
		field = items
	}
	field["enum"] = values
}

// addFields adds the fields of a struct. Those of an embedded struct, which is its first, are replaced by its own.
func (g *generator) addFields(t reflect.Type, properties object, required map[string]bool) error {
	for f := range t.Fields() {
		if f.Anonymous {
			if err := g.addFields(f.Type, properties, required); err != nil {
				return err
			}
		}
		tag, tagged := f.Tag.Lookup("json")
		if f.Anonymous || !tagged {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		schema, err := g.schemaOf(f.Type)
		if err != nil {
			return fmt.Errorf("field %s of %s: %w", f.Name, t, err)
		}
		comment, err := g.comment(t, f.Name)
		if err != nil {
			return err
		}
		if comment != "" {
			if _, isReference := schema["$ref"]; isReference {
				schema = object{"allOf": []any{schema}} // what is beside a reference does not count
			}
			schema = maps.Clone(schema)
			schema["description"] = comment
		}
		properties[name] = schema
		if !strings.HasPrefix(options, "omit") {
			required[name] = true
		}
	}
	return nil
}

// comment returns the comment of a field, on one line.
func (g *generator) comment(t reflect.Type, field string) (string, error) {
	dir := strings.TrimPrefix(t.PkgPath(), module)
	if _, known := g.comments[dir]; !known {
		comments, err := commentsOf(filepath.Join("..", dir))
		if err != nil {
			return "", fmt.Errorf("reading the comments of %s: %w", t, err)
		}
		g.comments[dir] = comments
	}
	return g.comments[dir][t.Name()+"."+field], nil
}

// commentsOf returns the comments of all fields of structs in a folder of Go files.
func commentsOf(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	comments := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, isType := n.(*ast.TypeSpec)
			if !isType {
				return true
			}
			if of, isStruct := spec.Type.(*ast.StructType); isStruct {
				for _, field := range of.Fields.List {
					for _, name := range field.Names {
						comments[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
					}
				}
			}
			return false
		})
	}
	return comments, nil
}
