package scenario_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/harness/scenario"
)

func TestParse_UnrollsRepeat(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, step := range s.Steps {
		names = append(names, step.Name)
	}
	if diff := cmp.Diff([]string{"up-1", "", "rest-1", "up-2", "", "rest-2", "end"}, names); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	filled, err := s.Fill(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, filled); diff != "" {
		t.Errorf("filled with no names it differs (-want +got):\n%s", diff)
	}
	if s.Steps[1].Acts() || !s.Steps[3].Acts() {
		t.Error("a sleep acts, or a scale does not")
	}
}
