package flakes

import (
	"maps"
	"slices"
)

// Changed returns the specs of head that are new or differ from those of base, by
// themselves or by what they use in the test files of their package.
func Changed(base, head string) ([]Spec, error) {
	before, err := readTree(base)
	if err != nil {
		return nil, err
	}
	after, err := readTree(head)
	if err != nil {
		return nil, err
	}
	var all []Spec
	for _, folder := range slices.Sorted(maps.Keys(after)) {
		all = append(all, changed(before[folder], after[folder])...)
	}
	return all, nil
}

func changed(base, head sources) []Spec {
	base, head = base.settled(), head.settled()
	stale := changedHelpers(base.helpers, head.helpers)
	// Two specs may have one name.
	known := map[string][]string{}
	for _, s := range base.specs {
		known[s.Name] = append(known[s.Name], s.body)
	}
	var all []Spec
	for _, s := range head.specs {
		if !slices.Contains(known[s.Name], s.body) || s.usesAny(stale) {
			all = append(all, s)
		}
	}
	return all
}

// settled are sources in which the functions of a package with Ginkgo's specs, which
// run them all, are part of what is around them.
func (s *sources) settled() sources {
	if !slices.ContainsFunc(s.specs, func(s Spec) bool { return s.Focus != "" }) {
		return *s
	}
	settled := sources{helpers: maps.Clone(s.helpers)}
	for _, spec := range s.specs {
		if spec.Focus == "" {
			settled.helpers[suite] = settled.helpers[suite].plus(spec.code)
		} else {
			settled.specs = append(settled.specs, spec)
		}
	}
	return settled
}

// changedHelpers are the names of those that are changed, and of those that use
// them. One that is new is used by nothing that is not changed itself.
func changedHelpers(base, head map[string]code) map[string]bool {
	stale := map[string]bool{}
	for name, h := range head {
		if old, known := base[name]; known && old.body != h.body {
			stale[name] = true
		}
	}
	for more := true; more; {
		more = false
		for name, h := range head {
			if !stale[name] && h.usesAny(stale) {
				stale[name], more = true, true
			}
		}
	}
	return stale
}
