// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/scenario"
)

func TestIsHasty(t *testing.T) {
	g := NewWithT(t)
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
	g.Expect(err).NotTo(HaveOccurred())
	for i, step := range s.Steps {
		if step.Quiesce != nil {
			g.Expect(s.IsHasty(i)).To(Equal(step.Name == "two-changes"), step.Name)
		}
	}
}
