package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// conditional is a value of a map, or an item of a list, with a template condition.
type conditional struct {
	condition string
	value     any
}

// merge returns the objects of two overlays. Objects that only base has get the condition inBase,
// and those that only variant has get inVariant. A variant may only add to an object; any other
// difference is an error.
func merge(base, variant []chartObject, inBase, inVariant string) ([]chartObject, error) {
	added := map[string]chartObject{}
	for _, o := range variant {
		added[o.key()] = o
	}
	var merged []chartObject
	for _, o := range base {
		other, inBoth := added[o.key()]
		delete(added, o.key())
		if !inBoth {
			o.condition = inBase
			merged = append(merged, o)
			continue
		}
		tree, err := mergeMaps(o.tree, other.tree, inVariant)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.key(), err)
		}
		merged = append(merged, chartObject{o.condition, tree})
	}
	for _, o := range variant {
		if _, ok := added[o.key()]; ok {
			merged = append(merged, chartObject{inVariant, o.tree})
		}
	}
	return merged, nil
}

func mergeMaps(base, variant map[string]any, condition string) (map[string]any, error) {
	merged := map[string]any{}
	for key, value := range variant {
		if _, ok := base[key]; !ok {
			merged[key] = conditional{condition, value}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(base)) {
		value, ok := variant[key]
		if !ok {
			return nil, fmt.Errorf("%s is removed", key)
		}
		both, err := mergeValues(base[key], value, condition)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		merged[key] = both
	}
	return merged, nil
}

func mergeValues(base, variant any, condition string) (any, error) {
	if reflect.DeepEqual(base, variant) {
		return base, nil
	}
	switch b := base.(type) {
	case map[string]any:
		if v, ok := variant.(map[string]any); ok {
			return mergeMaps(b, v, condition)
		}
	case []any:
		if v, ok := variant.([]any); ok {
			return mergeLists(b, v, condition)
		}
	}
	return nil, fmt.Errorf("%v is replaced by %v", base, variant)
}

// mergeLists merges item by item if both lists have the same length. Otherwise base must be variant
// without the added items.
func mergeLists(base, variant []any, condition string) ([]any, error) {
	var merged []any
	if len(base) == len(variant) {
		for i := range base {
			both, err := mergeValues(base[i], variant[i], condition)
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
			merged = append(merged, both)
		}
		return merged, nil
	}
	left := base
	for _, item := range variant {
		if len(left) > 0 && reflect.DeepEqual(left[0], item) {
			merged, left = append(merged, item), left[1:]
			continue
		}
		merged = append(merged, conditional{condition, item})
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%v is removed or moved", left[0])
	}
	return merged, nil
}
