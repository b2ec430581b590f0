// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/scenario"
)

const hostile = `
name: hostile
users: [{name: "m-{evil}", groups: [team], namespace: "{evil}", role: edit}, {name: "{evil}"}]
steps:
- {name: first, apply: {kind: X, at: "{s3.endpoint}", key: "{s3.accessKey}"}}
- {name: may not, as: "m-{evil}", refused: true, delete: {apiVersion: v1, kind: X, name: x}}
- {name: may, as: "m-{evil}", refused: may, apply: {kind: X}}
- {name: look, may: {user: "m-{evil}", verb: get, resource: things.example.com, namespace: "{evil}", allowed: true}}
- {name: storm, as: "{evil}", attack: {namespace: "{evil}", count: 3, apply: {kind: X, data: $(index)}}}
- {name: last, external: {put: "{evil}"}}
- {name: end, quiesce: {for: 1s}}
`

func TestUsersAttacksAndValues(t *testing.T) {
	g := NewWithT(t)
	s, err := scenario.Parse([]byte(hostile))
	g.Expect(err).NotTo(HaveOccurred())
	filled, err := s.Fill(map[string]string{"evil": "evil-1", "s3.endpoint": "http://127.0.0.1:1"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Names()).To(Equal([]string{"evil"}))
	g.Expect(s.Values()).To(Equal([]string{"s3.accessKey", "s3.endpoint"}))
	g.Expect(filled.Steps[0].Apply).To(Equal(map[string]any{"kind": "X", "at": "http://127.0.0.1:1",
		"key": "{s3.accessKey}"}))
	change, thing := filled.Steps[5].Change()
	g.Expect([]string{change, thing}).To(Equal([]string{"put", "evil-1"}))
	u, known := filled.User("m-evil-1")
	g.Expect(known).To(BeTrue())
	g.Expect(u).To(Equal(scenario.User{Name: "m-evil-1", Groups: []string{"team"}, Namespace: "evil-1", Role: "edit"}))
	g.Expect(filled.Steps[1].Refused).To(Equal(scenario.MustRefuse))
	g.Expect(filled.Steps[2].Refused).To(Equal(scenario.MayRefuse))
	g.Expect(filled.Steps[3].May.String()).To(Equal("m-evil-1 may get things.example.com evil-1"))
	attack := filled.Steps[4].Attack
	g.Expect(attack.Apply).To(HaveKeyWithValue("data", "$(index)"))
	g.Expect(filled.Hostile()).To(Equal([]string{"evil-1"}))
}
