package scenario_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/harness/scenario"
)

func TestExternalStepsAndValues(t *testing.T) {
	s, err := scenario.Parse([]byte(`
name: a
steps:
- external: {put: "{thing}"}
- apply: {kind: X, endpoint: "{store.endpoint}", key: "{store.accessKey}", name: "{thing}"}
- {name: end, quiesce: {for: 1s}}
`))
	if err != nil {
		t.Fatal(err)
	}
	names, err := s.Names()
	if err != nil {
		t.Fatal(err)
	}
	values, err := s.Values()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"thing"}, {"store.accessKey", "store.endpoint"}},
		[][]string{names, values}); diff != "" {
		t.Errorf("names and values (-want +got):\n%s", diff)
	}
	filled, err := s.Fill(map[string]string{"thing": "thing-1", "store.endpoint": "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if what, thing := filled.Steps[0].Change(); what != "put" || thing != "thing-1" {
		t.Errorf("the change is %s of %s", what, thing)
	}
	if diff := cmp.Diff(map[string]any{"kind": "X", "endpoint": "http://127.0.0.1:1", "key": "{store.accessKey}",
		"name": "thing-1"}, filled.Steps[1].Apply); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	for _, text := range []string{"external: {}", "external: {put: a, remove: b}", `external: {put: ""}`,
		"{external: {put: a}, delete: {apiVersion: v1, kind: X, name: x}}"} {
		if _, err := scenario.Parse([]byte("name: a\nsteps:\n- " + text +
			"\n- {name: end, quiesce: {for: 1s}}\n")); err == nil {
			t.Errorf("Parse() of a step %q wants an error", text)
		}
	}
}
