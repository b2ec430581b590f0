package compatibility

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"leasehold.dev/test/performance/gate/row"
)

// top are the parts of an object that a kind defines itself, such as spec, without
// a status that is written by itself.
func (s *subject) top() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(schemaOf(s.version).Properties)) {
		shared := slices.Contains([]string{"apiVersion", "kind", "metadata"}, name)
		if !shared && (name != "status" || !s.hasStatus()) {
			names = append(names, name)
		}
	}
	return names
}

// coverage says how many of the fields of base at least one object has: of the
// others nothing was tried.
func coverage(s *subject) row.Row {
	all := map[string]bool{}
	for _, name := range append(s.top(), "status") {
		if below, ok := schemaOf(s.version).Properties[name]; ok {
			paths(all, name, below)
		}
	}
	for _, e := range s.examples {
		eachValue("", e.kept.Object, func(field string, _ any) {
			if _, asked := all[field]; asked {
				all[field] = false
			}
		})
	}
	without := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(field string) bool { return !all[field] })
	tried := fmt.Sprintf("%d of %d fields", len(all)-len(without), len(all))
	r := row.Row{ID: s.id() + "/fields tried", Base: tried, Head: tried, Verdict: row.Same}
	if len(without) > 0 {
		r.Verdict = row.New
		r.Reason = "no object has " + strings.Join(without, ", ") + ", so nothing was tried with it: give config/samples one that has"
	}
	return r
}

// paths adds a field and all below it, as not seen yet.
func paths(all map[string]bool, field string, s apiextensionsv1.JSONSchemaProps) {
	all[field] = true
	for name, below := range children(s) {
		paths(all, join(field, name), below)
	}
}

// eachValue calls visit for a value and for all below it, each with its field's path.
// What is in a map is visited twice: by its key, and as one of all that may be there.
func eachValue(field string, value any, visit func(field string, value any)) {
	visit(field, value)
	switch value := value.(type) {
	case map[string]any:
		for name, below := range value {
			eachValue(join(field, name), below, visit)
			eachValue(field+"{}", below, visit)
		}
	case []any:
		for _, below := range value {
			eachValue(field+"[]", below, visit)
		}
	}
}
