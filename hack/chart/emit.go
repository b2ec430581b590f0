package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// defaultNamespace is the namespace in config/; a release has its own.
const (
	defaultNamespace = "leasehold-system"
	releaseNamespace = `{{ .Release.Namespace }}`
)

// inline is a template that replaces a scalar.
type inline string

// block is a template that replaces a whole value. It returns the text for a value whose children
// are indented by this number of spaces.
type block func(indent int) string

// field is a template that replaces a field with its key, or an item of a list. It returns lines
// that are indented by this number of spaces.
type field func(indent int) string

// template returns the object as one document of a template file.
func (o chartObject) template() string {
	var e emitter
	e.line(0, "---")
	e.mapping(0, o.tree)
	text := e.text.String()
	if o.condition != "" {
		text = when(0, o.condition, text)
	}
	return text
}

// when wraps whole lines in a condition.
func when(indent int, condition, text string) string {
	prefix := strings.Repeat(" ", indent)
	return prefix + "{{- if " + condition + " }}\n" + text + prefix + "{{- end }}\n"
}

// emitter writes a tree as YAML with templates.
type emitter struct{ text strings.Builder }

func (e *emitter) line(indent int, text string) {
	e.text.WriteString(strings.Repeat(" ", indent) + text + "\n")
}

func (e *emitter) mapping(indent int, m map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		e.entry(indent, key, m[key])
	}
}

func (e *emitter) entry(indent int, key string, value any) {
	switch v := value.(type) {
	case conditional:
		var inner emitter
		inner.entry(indent, key, v.value)
		e.text.WriteString(when(indent, v.condition, inner.text.String()))
	case field:
		e.text.WriteString(v(indent))
	case block:
		e.line(indent, scalar(indent, key)+":")
		e.text.WriteString(v(indent))
	case map[string]any:
		if len(v) == 0 {
			e.line(indent, scalar(indent, key)+": {}")
			return
		}
		e.line(indent, scalar(indent, key)+":")
		e.mapping(indent+2, v)
	case []any:
		if len(v) == 0 {
			e.line(indent, scalar(indent, key)+": []")
			return
		}
		e.line(indent, scalar(indent, key)+":")
		e.list(indent, v)
	default:
		e.line(indent, scalar(indent, key)+": "+scalar(indent, value))
	}
}

func (e *emitter) list(indent int, items []any) {
	for _, item := range items {
		e.item(indent, item)
	}
}

func (e *emitter) item(indent int, item any) {
	switch v := item.(type) {
	case conditional:
		var inner emitter
		inner.item(indent, v.value)
		e.text.WriteString(when(indent, v.condition, inner.text.String()))
	case field:
		e.text.WriteString(v(indent))
	case map[string]any:
		first := firstKey(v)
		if first == "" {
			e.line(indent, "- {}")
			return
		}
		var inner emitter
		inner.entry(indent+2, first, v[first])
		rest := maps.Clone(v)
		delete(rest, first)
		inner.mapping(indent+2, rest)
		e.line(indent, "- "+strings.TrimSuffix(inner.text.String()[indent+2:], "\n"))
	default:
		e.line(indent, "- "+scalar(indent, item))
	}
}

// firstKey returns the first key whose line is unconditional: a template cannot follow the dash of
// an item.
func firstKey(m map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch m[key].(type) {
		case conditional, field:
		default:
			return key
		}
	}
	return ""
}

// scalar returns value as YAML that Helm's template engine does not change, except for the
// namespace. Further lines are indented more than indent.
func scalar(indent int, value any) string {
	if text, ok := value.(inline); ok {
		return string(text)
	}
	if value == defaultNamespace {
		return `{{ .Release.Namespace | quote }}` // a name such as "123" is a string too
	}
	encoded, err := yaml.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encoding what was decoded from YAML: %v", err))
	}
	text := strings.TrimSuffix(string(encoded), "\n")
	text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", indent))
	text = strings.NewReplacer("{{", `{{ "{{" }}`, "}}", `{{ "}}" }}`).Replace(text)
	return strings.ReplaceAll(text, defaultNamespace, releaseNamespace)
}
