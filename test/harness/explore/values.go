package explore

import (
	"encoding/json"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
)

// longest is the length of the longest string that a change makes. The limit of an object in etcd
// is 1.5 MiB.
const longest = 512 << 10

// formats has a valid string of each format that the API server checks.
var formats = map[string]string{
	"date-time": "2030-01-02T03:04:05Z", "date": "2030-01-02", "duration": "90s", "ipv4": "192.0.2.1",
	"ipv6": "2001:db8::1",
	"cidr": "192.0.2.0/24", "email": "user@example.com", "uri": "https://example.com/",
	"uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
	"byte": "YQ==", "hostname": "example.com", "mac": "00:00:5e:00:53:01",
}

// decode returns a JSON value with integers as int64.
func decode(raw apiextensionsv1.JSON) any {
	var value any
	if err := utiljson.Unmarshal(raw.Raw, &value); err != nil {
		return nil // the API server has no such schema
	}
	return value
}

// bare returns a text for validation, without the braces of placeholders.
var bare = strings.NewReplacer("{", "", "}", "")

// isValid reports whether the schema accepts a string. A pattern that Go does not read accepts all.
func isValid(s *apiextensionsv1.JSONSchemaProps, text string) bool {
	text = bare.Replace(text)
	if tooFew(s.MinLength, len(text)) || s.MaxLength != nil && int64(len(text)) > *s.MaxLength {
		return false
	}
	pattern, err := regexp.Compile(s.Pattern)
	return err != nil || pattern.MatchString(text)
}

// changedText returns a string changed, at the bounds of its length, and against its pattern and format.
func changedText(s *apiextensionsv1.JSONSchemaProps, text string) []candidate {
	all := []candidate{{"type", []any{"a list"}, true}}
	if valid, known := formats[s.Format]; known {
		return append(all, candidate{"format", valid, false}, candidate{"not-of-format", "no " + s.Format, true})
	}
	for _, other := range []string{text + "x", "x" + text, fitted(s, len(text)+1), fitted(s, 1)} {
		if other != text && isValid(s, other) {
			all = append(all, candidate{"other", other, false})
			break
		}
	}
	add := func(kind, text string, invalid bool) {
		if isValid(s, text) != invalid {
			all = append(all, candidate{kind, text, invalid})
		}
	}
	if s.MinLength != nil {
		add("min", fitted(s, int(*s.MinLength)), false)
		if *s.MinLength > 0 {
			add("beyond-min", strings.Repeat("a", int(*s.MinLength)-1), true)
		}
	} else {
		add("empty", "", false)
	}
	if s.MaxLength != nil && *s.MaxLength < longest {
		add("max", fitted(s, int(*s.MaxLength)), false)
		add("beyond-max", strings.Repeat("a", int(*s.MaxLength)+1), true)
	}
	if s.Pattern != "" {
		for _, wrong := range []string{"!", "A b", "-", "a/b", "ü", "!!!!!!!!"} {
			if !isValid(s, wrong) {
				all = append(all, candidate{"not-of-pattern", wrong, true})
				break
			}
		}
	}
	return all
}

// fitted returns a string of a length, as far as the pattern allows.
func fitted(s *apiextensionsv1.JSONSchemaProps, length int) string {
	if s.Pattern == "" {
		return strings.Repeat("a", length)
	}
	tree, err := syntax.Parse(s.Pattern, syntax.Perl)
	if err != nil {
		return strings.Repeat("a", length)
	}
	tree = tree.Simplify()
	spare := 0
	text := matching(tree, &spare)
	if spare = length - len(text); spare > 0 {
		text = matching(tree, &spare)
	}
	return text
}

// matching returns a string that matches an expression: the shortest with spare characters more,
// as far as it repeats anything.
func matching(r *syntax.Regexp, spare *int) string {
	var b strings.Builder
	switch r.Op {
	case syntax.OpLiteral:
		return string(r.Rune)
	case syntax.OpCharClass:
		for i := 0; i+1 < len(r.Rune); i += 2 {
			if r.Rune[i] <= 'a' && 'a' <= r.Rune[i+1] {
				return "a"
			}
		}
		if len(r.Rune) > 0 {
			return string(r.Rune[0])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpConcat:
		for _, sub := range r.Sub {
			b.WriteString(matching(sub, spare))
		}
	case syntax.OpCapture, syntax.OpAlternate:
		return matching(r.Sub[0], spare)
	case syntax.OpPlus, syntax.OpStar, syntax.OpQuest:
		none := 0
		once := matching(r.Sub[0], &none)
		if r.Op == syntax.OpPlus {
			b.WriteString(once)
		}
		if r.Op == syntax.OpQuest {
			if *spare >= len(once) && once != "" {
				*spare -= len(once)
				b.WriteString(matching(r.Sub[0], spare))
			}
			break
		}
		for once != "" && *spare >= len(once) {
			*spare -= len(once)
			b.WriteString(once)
		}
	default: // what matches no character, such as the ends of the text
	}
	return b.String()
}

// minimal returns the least value that the schema accepts.
func minimal(s *apiextensionsv1.JSONSchemaProps) any {
	switch {
	case s.Default != nil:
		return decode(*s.Default)
	case len(s.Enum) > 0:
		return decode(s.Enum[0])
	case s.XIntOrString:
		return int64(1)
	}
	switch s.Type {
	case "string":
		if valid, known := formats[s.Format]; known {
			return valid
		}
		shortest := 1
		if s.MinLength != nil {
			shortest = max(shortest, int(*s.MinLength))
		}
		return fitted(s, shortest)
	case "integer", "number":
		return leastNumber(s)
	case "boolean":
		return true
	case "array":
		n := 1
		if s.MinItems != nil {
			n = max(n, int(*s.MinItems))
		}
		list := []any{}
		if of := itemsOf(s); of != nil {
			first := minimal(of)
			list = append(list, first)
			for i := 1; i < n; i++ {
				list = append(list, varied(of, s.XListMapKeys, first, i))
			}
		}
		return list
	}
	return leastObject(s)
}

func leastNumber(s *apiextensionsv1.JSONSchemaProps) any {
	n := 1.0
	least, most := ptr.Deref(s.Minimum, 0), ptr.Deref(s.Maximum, 0)
	for _, v := range []float64{1, 0, least, least + 1, most, most - 1} {
		if withinBounds(s, v) {
			n = v
			break
		}
	}
	if s.Type == "integer" {
		return int64(n)
	}
	return n
}

func leastObject(s *apiextensionsv1.JSONSchemaProps) map[string]any {
	object := map[string]any{}
	for _, name := range s.Required {
		p := s.Properties[name]
		object[name] = minimal(&p)
	}
	if of := itemsOfMap(s); of != nil && s.MinProperties != nil {
		for i := range min(int(*s.MinProperties), largest) {
			object["a"+strconv.Itoa(i)] = minimal(of)
		}
	}
	return object
}

// varied returns another element like this one: with other keys if it has keys, with another name
// if it has one.
func varied(s *apiextensionsv1.JSONSchemaProps, keys []string, element any, n int) any {
	suffix := "x" + strconv.Itoa(n)
	switch element := element.(type) {
	case string:
		if len(s.Enum) > 0 {
			return decode(s.Enum[n%len(s.Enum)])
		}
		if isValid(s, element+suffix) {
			return element + suffix
		}
		return fitted(s, len(element)+n)
	case int64:
		return element + int64(n)
	case float64:
		return element + float64(n)
	case map[string]any:
		other := runtime.DeepCopyJSON(element)
		names := keys
		if _, named := s.Properties["name"]; named && len(names) == 0 {
			names = []string{"name"}
		}
		for _, name := range names {
			p := s.Properties[name]
			other[name] = varied(&p, nil, element[name], n)
		}
		return other
	}
	return element
}

// text returns a value for a message, shortened.
func text(value any) string {
	body, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if len(body) > 80 {
		return string(body[:60]) + "... (" + strconv.Itoa(len(body)) + " bytes)"
	}
	return string(body)
}
