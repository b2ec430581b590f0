package scenario_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/scenario"
)

func TestParse_UnrollsRepeat(t *testing.T) {
	g := NewWithT(t)
	s, err := scenario.Parse([]byte(`
name: flapping
users: [{name: alice}]
steps:
- repeat:
    times: 2
    steps:
    - {name: up, as: alice,
        scale: {object: {apiVersion: apps/v1, kind: Deployment, namespace: default, name: web}, replicas: 3}}
    - sleep: 2s
    - {name: rest, quiesce: {for: 1s}}
- {name: end, quiesce: {for: 1s}}
`))
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, step := range s.Steps {
		names = append(names, step.Name)
	}
	g.Expect(names).To(Equal([]string{"up-1", "", "rest-1", "up-2", "", "rest-2", "end"}))
	filled, err := s.Fill(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filled).To(BeComparableTo(s), "it has no names to fill")
	g.Expect(s.Steps[1].Acts()).To(BeFalse(), "a sleep")
	g.Expect(s.Steps[3].Acts()).To(BeTrue(), "a scale")
}
