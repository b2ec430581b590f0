// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// bookkeeping are fields that the API server looks after.
var bookkeeping = []string{
	"metadata.uid", "metadata.resourceVersion", "metadata.generation", "metadata.managedFields",
	"metadata.creationTimestamp", "status.conditions",
}

// changes describes the fields that differ between two versions: conditions first, then fields by
// path.
func changes(before, after *unstructured.Unstructured) []string {
	lines := conditionChanges(before, after)
	was, is := map[string]string{}, map[string]string{}
	flatten(was, "", before.Object)
	flatten(is, "", after.Object)
	for _, path := range sets.List(sets.KeySet(was).Union(sets.KeySet(is))) {
		old, had := was[path]
		now, has := is[path]
		switch {
		case !had:
			lines = append(lines, fmt.Sprintf("+ %s: %s", path, now))
		case !has:
			lines = append(lines, fmt.Sprintf("− %s: %s", path, old))
		case old != now:
			lines = append(lines, fmt.Sprintf("%s: %s → %s", path, old, now))
		}
	}
	return lines
}

// flatten collects all fields by path, without bookkeeping. An element of a list has its name or
// its value in the path instead of its index.
func flatten(fields map[string]string, path string, value any) {
	if slices.Contains(bookkeeping, path) {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			flatten(fields, strings.TrimPrefix(path+"."+key, "."), inner)
		}
	case []any:
		for i, inner := range value {
			switch inner := inner.(type) {
			case map[string]any:
				name := fmt.Sprint(i)
				for _, key := range []string{"name", "type", "uid"} {
					if text, ok := inner[key].(string); ok {
						name = text
						break
					}
				}
				flatten(fields, fmt.Sprintf("%s[%s]", path, name), inner)
			default:
				fields[path+"[]"] = strings.TrimPrefix(fields[path+"[]"]+", "+fmt.Sprint(inner), ", ")
			}
		}
	default:
		fields[path] = fmt.Sprint(value)
	}
}

// conditionChanges describes the changes of each condition in one line.
func conditionChanges(before, after *unstructured.Unstructured) []string {
	was, is := conditions(before), conditions(after)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		old, now := was[name], is[name]
		short := func(c map[string]string) string { return fmt.Sprintf("%s (%s)", c["status"], c["reason"]) }
		switch {
		case old == nil:
			lines = append(lines, fmt.Sprintf("+ %s: %s", name, short(now)))
		case short(old) != short(now):
			lines = append(lines, fmt.Sprintf("%s: %s → %s", name, short(old), short(now)))
		case !maps.Equal(old, now):
			var fields []string
			for _, field := range slices.Sorted(maps.Keys(now)) {
				if old[field] != now[field] {
					fields = append(fields, field)
				}
			}
			lines = append(lines, fmt.Sprintf("%s is %s as before, with another %s", name, short(now), strings.Join(fields, ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if is[name] == nil {
			lines = append(lines, "− "+name)
		}
	}
	return lines
}

// conditions are those of an object, by type.
func conditions(object *unstructured.Unstructured) map[string]map[string]string {
	found := map[string]map[string]string{}
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		fields := map[string]string{}
		if condition, ok := item.(map[string]any); ok {
			for key, value := range condition {
				fields[key] = fmt.Sprint(value)
			}
		}
		found[fields["type"]] = fields
	}
	return found
}
