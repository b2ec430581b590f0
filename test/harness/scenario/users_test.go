package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/harness/scenario"
)

const hostile = `
name: hostile
users: [{name: "m-{evil}", groups: [team], namespace: "{evil}", role: edit}, {name: "{evil}"}]
steps:
- {name: first, apply: {kind: X, at: "{blackhole.1}"}}
- {name: may not, as: "m-{evil}", refused: true, delete: {apiVersion: v1, kind: X, name: x}}
- {name: may, as: "m-{evil}", refused: may, apply: {kind: X}}
- {name: look, may: {user: "m-{evil}", verb: get, resource: things.example.com, namespace: "{evil}", allowed: true}}
- {name: storm, as: "{evil}", attack: {name: many-objects, namespace: "{evil}", count: 3, size: 4Ki, template: {kind: X, data: $(index)}}}
- {name: last, apply: {kind: X}}
- {name: end, quiesce: {for: 1s}}
`

func TestUsersAndAttacks(t *testing.T) {
	s, err := scenario.Parse([]byte(hostile))
	if err != nil {
		t.Fatal(err)
	}
	filled, err := s.Fill(map[string]string{"evil": "evil-1", "blackhole.1": "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	values, err := s.Values()
	if diff := cmp.Diff([]string{"blackhole.1"}, values); err != nil || diff != "" {
		t.Errorf("values (-want +got):\n%s%v", diff, err)
	}
	if u, known := filled.User("m-evil-1"); !known || u.Namespace != "evil-1" || u.Role != "edit" ||
		!slices.Equal(u.Groups, []string{"team"}) {
		t.Errorf("the user is %+v", u)
	}
	if got := filled.Steps[1].Refused + " " + filled.Steps[2].Refused; got != "true may" {
		t.Errorf("refused are %s", got)
	}
	if got := filled.Steps[3].May.String(); got != "m-evil-1 may get things.example.com evil-1" {
		t.Errorf("the question is %q", got)
	}
	if got := filled.Steps[4].Attack; got.Size.Value() != 4096 || got.Template["data"] != "$(index)" {
		t.Errorf("the attack is %+v", got)
	}
	if diff := cmp.Diff([]string{"evil-1"}, filled.Hostile()); diff != "" {
		t.Errorf("hostile (-want +got):\n%s", diff)
	}
	for step, want := range map[string]string{
		"{as: nobody, apply: {kind: X}}":                                                    `no user is called "nobody"`,
		"{as: u, wait: {object: {apiVersion: v1, kind: X, name: x}, gone: true}}":           "as is for",
		"{as: u, external: {put: x}}":                                                       "knows no users",
		"{refused: never, apply: {kind: X}}":                                                "neither true nor may",
		"{refused: true, external: {put: x}}":                                               "refused is for",
		"{may: {user: u, verb: get}}":                                                       "a resource",
		"{attack: {name: storm, template: {kind: X}}}":                                      "an attack needs a name",
		"{name: a, attack: {template: {kind: X}}}":                                          "one in the library",
		"{name: a, attack: {name: storm, template: {}, object: {kind: X}}}":                 "either a template or an object",
		"{name: a, attack: {name: storm, count: -1, template: {}}}":                         "may be negative",
		"{name: a, attack: {name: storm, object: {kind: X}}}":                               "names no object",
		"{name: a, attack: {name: storm, template: {kind: X}}, delete: {kind: X, name: x}}": "2 actions",
	} {
		_, err := scenario.Parse([]byte("name: a\nusers: [{name: u}]\nsteps:\n- " + step +
			"\n- {name: end, quiesce: {for: 1s}}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse() of a step %s fails with %v, want %q", step, err, want)
		}
	}
	_, err = scenario.Parse([]byte("name: a\nusers: [{name: u, role: edit}]\nsteps: [{name: end, quiesce: {for: 1s}}]\n"))
	if err == nil || !strings.Contains(err.Error(), "a role together with a namespace") {
		t.Errorf("Parse() of a role without a namespace fails with %v", err)
	}
}
