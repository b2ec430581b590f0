package explore

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// State is the state at rest: the fields of each relevant object by path, without UIDs and with
// placeholders for names.
type State map[string]map[string]string

// index is the place of a list's element that has no name.
var index = regexp.MustCompile(`\[\d+\]`)

// incidental are fields that count how often something was changed.
var incidental = []string{".metadata.annotations.deployment.kubernetes.io/revision"}

// unordered returns the fields without the order of lists: the values of all elements of a list
// are sorted.
func unordered(fields map[string]string) map[string][]string {
	all := map[string][]string{}
	for path, value := range fields {
		if !slices.Contains(incidental, path) {
			path = index.ReplaceAllString(path, "[]")
			all[path] = append(all[path], value)
		}
	}
	for _, values := range all {
		slices.Sort(values)
	}
	return all
}

// volatile has the paths of fields by object, whose values differ from run to run.
type volatile map[string]map[string]bool

// volatileFields returns the fields that differ between two runs with the same specs.
func volatileFields(a, b State) volatile {
	found := volatile{}
	for name, fields := range a {
		first, second := unordered(fields), unordered(b[name])
		for _, path := range keysOfBoth(first, second) {
			if !slices.Equal(first[path], second[path]) {
				if found[name] == nil {
					found[name] = map[string]bool{}
				}
				found[name][path] = true
			}
		}
	}
	return found
}

// differences returns the differences of a state from the wanted one, apart from the order of lists
// and from volatile fields.
func differences(want, got State, ignored volatile) []string {
	var found []string
	for _, name := range keysOfBoth(want, got) {
		wanted, in := want[name]
		have, there := got[name]
		switch {
		case !there:
			found = append(found, name+" is missing")
			continue
		case !in:
			found = append(found, name+" is there and should not be")
			continue
		}
		a, b := unordered(wanted), unordered(have)
		for _, path := range keysOfBoth(a, b) {
			if !ignored[name][path] && !slices.Equal(a[path], b[path]) {
				found = append(found, fmt.Sprintf("%s: %s is %s, want %s", name, strings.TrimPrefix(path, "."), list(b[path]),
					list(a[path])))
			}
		}
	}
	return found
}

func list(values []string) string {
	switch len(values) {
	case 0:
		return "absent"
	case 1:
		return text(values[0])
	}
	return text(values)
}

func keysOfBoth[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
