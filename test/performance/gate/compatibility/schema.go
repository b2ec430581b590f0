package compatibility

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"leasehold.dev/test/performance/gate/row"
)

// Change is one difference between two schemas, at one field.
type Change struct {
	// Field as in spec.admins[].kind; items are [] and the values of a map {}.
	// Empty at the root.
	Field string
	// What is different, as in maxLength.
	What       string
	Base, Head string
	Verdict    row.Verdict
	Reason     string
}

// The reasons, each with what to do.
const (
	reasonGone    = "what is stored in it is dropped at the next write, and clients that set it are refused or ignored: keep the field, or serve another version beside this one"
	reasonType    = "what is stored and what clients send is of the old type: add another field instead"
	reasonRefused = "stored objects that had been accepted may be refused at their next write of it, and clients at their next create: leave it as it was, or say in the change why there is no such object"
	reasonMeaning = "an object that leaves it out means something else now: leave the default as it was"
	reasonMerge   = "clients merge it by the old rule: leave it as it was"
	reasonMore    = "it accepts more than before"
	reasonAdded   = "clients of base know nothing of it"
)

// CompareSchemas returns what is different at head, in the order of the fields.
func CompareSchemas(base, head *apiextensionsv1.JSONSchemaProps) []Change {
	c := &comparison{}
	c.walk("", ptr.Deref(base, apiextensionsv1.JSONSchemaProps{}), ptr.Deref(head, apiextensionsv1.JSONSchemaProps{}))
	slices.SortStableFunc(c.changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.What, b.What))
	})
	return c.changes
}

// CountFields says how many fields a schema has below its root.
func CountFields(schema *apiextensionsv1.JSONSchemaProps) int {
	n := 0
	for _, below := range children(ptr.Deref(schema, apiextensionsv1.JSONSchemaProps{})) {
		n += 1 + CountFields(&below)
	}
	return n
}

type comparison struct {
	changes []Change
}

func (c *comparison) add(field, what, base, head string, v row.Verdict, reason string) {
	c.changes = append(c.changes, Change{Field: field, What: what, Base: base, Head: head, Verdict: v, Reason: reason})
}

func (c *comparison) walk(field string, base, head apiextensionsv1.JSONSchemaProps) {
	if base.Type != head.Type || base.XIntOrString != head.XIntOrString {
		c.add(field, "type", typeOf(base), typeOf(head), row.Worse, reasonType)
		// Below it nothing can be compared.
		return
	}
	c.values(field, base, head)
	c.bounds(field, base, head)
	c.rules(field, base, head)
	c.lists(field, base, head)

	below := children(head)
	for name, old := range children(base) {
		now, still := below[name]
		switch keeps := ptr.Deref(head.XPreserveUnknownFields, false); {
		case still:
			c.walk(join(field, name), old, now)
		case !keeps:
			c.add(join(field, name), "removed", typeOf(old), "", row.Worse, reasonGone)
		default:
			c.add(join(field, name), "removed", typeOf(old), "", row.Worse, "its value is kept but no longer validated: say in the change who relies on it")
		}
	}
	known := children(base)
	for name, now := range below {
		if _, had := known[name]; !had {
			c.add(join(field, name), "added", "", typeOf(now), row.New, reasonAdded)
		}
	}
	for _, name := range head.Required {
		if !slices.Contains(base.Required, name) {
			c.add(join(field, name), "required", "optional", "required", row.Worse, reasonRefused)
		}
	}
	for _, name := range base.Required {
		if _, still := below[name]; still && !slices.Contains(head.Required, name) {
			c.add(join(field, name), "required", "required", "optional", row.Better, reasonMore)
		}
	}
}

// values compares what a field may hold apart from bounds.
func (c *comparison) values(field string, base, head apiextensionsv1.JSONSchemaProps) {
	old, now := texts(base.Enum), texts(head.Enum)
	switch {
	case len(old) == 0 && len(now) > 0:
		c.add(field, "enum", "any", strings.Join(now, " "), row.Worse, reasonRefused)
	case len(old) > 0 && len(now) == 0:
		c.add(field, "enum", strings.Join(old, " "), "any", row.Better, reasonMore)
	default:
		for _, value := range missing(old, now) {
			c.add(field, "enum "+value, "accepted", "refused", row.Worse, reasonRefused)
		}
		for _, value := range missing(now, old) {
			c.add(field, "enum "+value, "refused", "accepted", row.Better, reasonMore)
		}
	}
	if base.Nullable && !head.Nullable {
		c.add(field, "nullable", "true", "false", row.Worse, reasonRefused)
	}
	if base.Format != head.Format {
		v, reason := row.Worse, reasonRefused
		if head.Format == "" {
			v, reason = row.Better, reasonMore
		}
		c.add(field, "format", base.Format, head.Format, v, reason)
	}
	before, after := text(base.Default), text(head.Default)
	switch before {
	case after:
	case "":
		c.add(field, "default", "", after, row.New, "stored objects that leave it out are read with it from now on")
	default:
		c.add(field, "default", before, after, row.Worse, reasonMeaning)
	}
}

// rules compares what is checked by expressions.
func (c *comparison) rules(field string, base, head apiextensionsv1.JSONSchemaProps) {
	expression := func(v apiextensionsv1.ValidationRule) string { return strings.Join(strings.Fields(v.Rule), " ") }
	old, now := collect(base.XValidations, expression), collect(head.XValidations, expression)
	for _, rule := range missing(now, old) {
		c.add(field, "validation "+rule, "", rule, row.Worse, reasonRefused)
	}
	for _, rule := range missing(old, now) {
		c.add(field, "validation "+rule, rule, "", row.Better, reasonMore)
	}
	combinators := func(s apiextensionsv1.JSONSchemaProps) []any { return []any{s.AllOf, s.AnyOf, s.OneOf, s.Not} }
	if !equality.Semantic.DeepEqual(combinators(base), combinators(head)) {
		c.add(field, "allOf anyOf oneOf not", asJSON(combinators(base)), asJSON(combinators(head)), row.Worse, reasonRefused)
	}
}

// lists compares how lists and maps are merged, and whether unknown fields are kept.
func (c *comparison) lists(field string, base, head apiextensionsv1.JSONSchemaProps) {
	for _, rule := range []struct{ what, base, head string }{
		{"list type", ptr.Deref(base.XListType, "atomic"), ptr.Deref(head.XListType, "atomic")},
		{"list map keys", strings.Join(base.XListMapKeys, " "), strings.Join(head.XListMapKeys, " ")},
		{"map type", ptr.Deref(base.XMapType, "granular"), ptr.Deref(head.XMapType, "granular")},
	} {
		if rule.base != rule.head {
			c.add(field, rule.what, rule.base, rule.head, row.Worse, reasonMerge)
		}
	}
	if ptr.Deref(base.XPreserveUnknownFields, false) && !ptr.Deref(head.XPreserveUnknownFields, false) {
		c.add(field, "unknown fields", "kept", "dropped", row.Worse, reasonGone)
	}
}

// children are the fields right below, with items and the values of a map among them.
func children(s apiextensionsv1.JSONSchemaProps) map[string]apiextensionsv1.JSONSchemaProps {
	below := maps.Clone(s.Properties)
	if below == nil {
		below = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	if s.Items != nil && s.Items.Schema != nil {
		below["[]"] = *s.Items.Schema
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		below["{}"] = *s.AdditionalProperties.Schema
	}
	return below
}

func join(field, name string) string {
	switch {
	case field == "":
		return name
	case name == "[]", name == "{}":
		return field + name
	default:
		return field + "." + name
	}
}

func typeOf(s apiextensionsv1.JSONSchemaProps) string {
	if s.XIntOrString {
		return "integer or string"
	}
	return s.Type
}

func text(j *apiextensionsv1.JSON) string {
	if j == nil {
		return ""
	}
	var value any
	if json.Unmarshal(j.Raw, &value) != nil {
		return string(j.Raw)
	}
	return asJSON(value)
}

func texts(values []apiextensionsv1.JSON) []string {
	return collect(values, func(j apiextensionsv1.JSON) string { return text(&j) })
}

func asJSON(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(raw)
}

func collect[T any](from []T, f func(T) string) []string {
	var all []string
	for _, one := range from {
		all = append(all, f(one))
	}
	return all
}

// missing are those of all that are not among some.
func missing(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}
