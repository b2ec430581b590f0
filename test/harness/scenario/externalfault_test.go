package scenario_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/harness/scenario"
)

func TestPlans_ExternalFaults(t *testing.T) {
	const thing = "/{thing}"
	calls := []scenario.Call{
		{Method: http.MethodHead, Path: thing, Answered: true},
		{Method: http.MethodPut, Path: thing}, // it was lost
		{Method: http.MethodPut, Path: thing, Changed: true, Answered: true},
		{Method: http.MethodGet, Path: thing + "?tags", Answered: true},
		{Method: http.MethodHead, Path: thing, Answered: true},
		{Method: http.MethodGet, Path: thing + "?list", Answered: true},
		{Method: http.MethodDelete, Path: thing, Changed: true, Answered: true},
	}
	// A look that was not made in all runs is no target, nor is a change.
	fewer := slices.Clone(calls[:4])
	s := scenario.Scenario{Name: "s", Faults: []scenario.Fault{scenario.ExternalCrash,
		scenario.ExternalLostResponse, scenario.ExternalError, scenario.ExternalSlow}}
	plans := scenario.Plans(s, []scenario.Observed{{Calls: calls}, {Calls: fewer}}, 1)
	var changes, looks []string
	for _, p := range plans {
		back, err := scenario.ParsePlan(p.ID())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("%s read again (-want +got):\n%s", p.ID(), diff)
		}
		if p.Target.Method == http.MethodPut {
			changes = append(changes, strings.TrimPrefix(p.ID(), "s:"))
			continue
		}
		_, target, _ := strings.Cut(strings.TrimPrefix(p.ID(), "s:"), ":")
		looks = append(looks, target)
	}
	if len(changes) != 4 {
		t.Fatalf("there are %d plans for the change, want 4: %q", len(changes), changes)
	}
	code, _, _ := strings.Cut(changes[3], ":")
	if !slices.Contains([]string{"external-error-403", "external-error-500", "external-error-503"}, code) {
		t.Errorf("the change is refused with %q", code)
	}
	var want []string
	for _, variant := range []string{"external-crash", "external-lost-response", "external-slow", code} {
		want = append(want, variant+":PUT:/{thing}:2")
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("plans for the change (-want +got):\n%s", diff)
	}
	slices.Sort(looks)
	if diff := cmp.Diff([]string{"GET:/{thing}?tags:1", "HEAD:/{thing}:1"}, looks); diff != "" {
		t.Errorf("plans for looks (-want +got):\n%s", diff)
	}
	all := scenario.Plans(s, []scenario.Observed{{Calls: calls}, {Calls: calls}}, 1)
	if len(all) != 2*4+3 {
		t.Errorf("there are %d plans, want 4 for each of two changes and one for each of three looks", len(all))
	}
}

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
