// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// IsHasty reports whether users change one object several times between the checkpoint before a
// step and the step.
func (s Scenario) IsHasty(step int) bool {
	var changed []Ref
	for _, earlier := range slices.Backward(s.Steps[:step]) {
		if earlier.Quiesce != nil {
			return false
		}
		ref := earlier.Changed()
		if ref == (Ref{}) {
			continue
		}
		if slices.Contains(changed, ref) {
			return true
		}
		changed = append(changed, ref)
	}
	return false
}

// Changed is the object that the step changes; zero if it changes none.
func (s Step) Changed() Ref {
	switch {
	case s.Apply != nil:
		return RefOf(&unstructured.Unstructured{Object: s.Apply})
	case s.Patch != nil:
		return s.Patch.Object
	case s.Scale != nil:
		return s.Scale.Object
	case s.Delete != nil:
		return *s.Delete
	}
	return Ref{}
}

// RefOf names an object.
func RefOf(o *unstructured.Unstructured) Ref {
	return Ref{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}
