package scenario

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Met reports whether an object that is there is as waited for: the condition has
// the status, and is about the generation that is there. The generation is the
// condition's own, or else the status's; a condition without either counts.
func (w Wait) Met(o *unstructured.Unstructured) bool {
	if w.Gone {
		return false
	}
	about, known, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		condition, ok := item.(map[string]any)
		if !ok || condition["type"] != w.Condition {
			continue
		}
		if own, ok := condition["observedGeneration"].(int64); ok {
			about, known = own, true
		}
		return condition["status"] == w.want() && (!known || about == o.GetGeneration())
	}
	return false
}
