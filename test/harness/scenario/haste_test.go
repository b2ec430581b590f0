package scenario_test

import (
	"testing"

	"leasehold.dev/test/harness/scenario"
)

func TestIsHasty(t *testing.T) {
	s, err := scenario.Parse([]byte(`
name: hasty
steps:
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: ns, name: a}}
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: ns, name: b}}
- {name: two-objects, quiesce: {for: 1s}}
- delete: {apiVersion: v1, kind: ConfigMap, namespace: ns, name: a}
- {name: one-change, quiesce: {for: 1s}}
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: ns, name: a}}
- wait: {object: {apiVersion: v1, kind: ConfigMap, namespace: ns, name: a}, exists: true}
- patch: {object: {apiVersion: v1, kind: ConfigMap, namespace: ns, name: b}, merge: {data: {x: y}}}
- delete: {apiVersion: v1, kind: ConfigMap, namespace: ns, name: a}
- {name: two-changes, quiesce: {for: 1s, like: one-change}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range s.Steps {
		if want := step.Name == "two-changes"; step.Quiesce != nil && s.IsHasty(i) != want {
			t.Errorf("IsHasty of %s is %t, want %t", step.Name, !want, want)
		}
	}
}
