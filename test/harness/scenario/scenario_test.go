// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/scenario"
)

const team = `
name: team-life
invariants: [end-state, convergence]
steps:
- apply: {apiVersion: example.com/v1, kind: Team, metadata: {name: "{team}", labels: {friend: "{other}-x"}}}
- name: made
  quiesce:
    until: [{object: {apiVersion: example.com/v1, kind: Team, name: "{team}"}, condition: Ready}]
    for: 2s
- patch: {object: {apiVersion: example.com/v1, kind: Team, name: "{team}"}, merge: {spec: {size: 3}}}
- wait: {object: {apiVersion: example.com/v1, kind: Team, name: "{team}"},
    condition: Ready, status: "False", within: 5s}
- delete: {apiVersion: example.com/v1, kind: Team, namespace: ns, name: "{team}"}
- name: gone
  quiesce:
    until: [{object: {apiVersion: example.com/v1, kind: Team, name: "{team}"}, gone: true}]
    for: 2s
    within: 30s
`

func TestParseAndFill(t *testing.T) {
	g := NewWithT(t)
	s, err := scenario.Parse([]byte(team))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Names()).To(Equal([]string{"other", "team"}))
	filled, err := s.Fill(map[string]string{"team": "team-1", "other": "other-1"})
	g.Expect(err).NotTo(HaveOccurred())
	want := map[string]any{"apiVersion": "example.com/v1", "kind": "Team", "metadata": map[string]any{
		"name": "team-1", "labels": map[string]any{"friend": "other-1-x"},
	}}
	g.Expect(filled.Steps[0].Apply).To(Equal(want))
	quiesce := filled.Steps[5].Quiesce
	g.Expect([]time.Duration{quiesce.For.Duration, quiesce.Within.Duration}).
		To(Equal([]time.Duration{2 * time.Second, 30 * time.Second}))
	g.Expect(quiesce.Until[0].String()).To(Equal("Team team-1 to be gone"))
	g.Expect(filled.Steps[3].Wait.String()).To(Equal("Team team-1 to have Ready=False"))
	g.Expect(filled.Steps[4].Delete.String()).To(Equal("Team ns/team-1"))
	g.Expect(s.Steps[1].Quiesce.Until[0].String()).To(Equal("Team {team} to have Ready=True"), "it is not changed")
	for i, step := range s.Steps {
		g.Expect(step.Acts()).To(Equal(i%2 == 0), "step %d", i+1)
	}
}

func TestFillLeavesWhatIsNotAName(t *testing.T) {
	NewWithT(t).Expect(scenario.Fill(`{"a": "{team}-{unknown}"} {}`, map[string]string{"team": "t"})).
		To(Equal(`{"a": "t-{unknown}"} {}`))
}

func TestParseRefuses(t *testing.T) {
	g := NewWithT(t)
	rest := "- {name: end, quiesce: {for: 1s}}\n"
	for text, want := range map[string]string{
		"name: a\nstep: []":          `unknown field "step"`,
		"steps:\n" + rest:            "the name",
		"name: a:b\nsteps:\n" + rest: "the name",
		"name: a":                    "the last step has to be a quiesce",
		"name: a\nsteps:\n" + rest + "- delete: {apiVersion: v1, kind: X, name: x}\n": "the last step",
		"name: a\nsteps:\n- {name: end, quiesce: {for: 0s}}\n":                        "for how long",
		"name: a\nsteps:\n- quiesce: {for: 1s}\n":                                     "a name of its own",
		"name: a\nsteps:\n- {name: end, quiesce: {for: 1s, like: end}}\n":             `step 1 end: like names no earlier quiesce: "end"`,
		"name: a\nsteps:\n" + rest + rest:                                             "step 2: a quiesce needs a name of its own",
		"name: a\nusers: [{name: u, role: edit}]\nsteps:\n" + rest:                    "a role together with a namespace",
	} {
		_, err := scenario.Parse([]byte(text))
		g.Expect(err).To(MatchError(ContainSubstring(want)), text)
	}
}

func TestParseRefusesSteps(t *testing.T) {
	const x = "apiVersion: v1, kind: X, name: x"
	for step, want := range map[string]string{
		"name: x":                          "step 1 x: it has 0 actions",
		"{apply: {}, delete: {" + x + "}}": "2 actions [apply delete]",
		`delete: {apiVersion: v1, kind: X, name: ""}`:                     "names no object",
		`patch: {object: {apiVersion: v1, kind: "", name: x}, merge: {}}`: "names no object",
		"wait: {object: {" + x + "}}":                                     "either a condition or gone",
		"wait: {object: {" + x + "}, condition: R, gone: true}":           "either a condition or gone",
		"wait: {object: {" + x + "}, current: true, gone: true}":          "one of them",
		"wait: {object: {" + x + "}, field: status.phase}":                "field and value need each other",
		"wait: {object: {" + x + "}, exists: true, value: 1}":             "field and value need each other",
		"wait: {object: {" + x + "}, field: 'status.list[', value: 1}":    "a path such as status.phase",
		"wait: {object: {" + x + `}, exists: true, status: "False"}`:      "status is that of a condition",
		"wait: {object: {apiVersion: v1, kind: X}, exists: true}":         "names no object",
		"sleep: -1s":                   "cannot sleep for -1s",
		"sleep: 0s":                    "0 actions",
		"sleep: long":                  "invalid duration",
		"scale: {object: {" + x + "}}": "needs replicas",
		"scale: {object: {" + x + "}, replicas: -1}":                        "needs replicas",
		"scale: {object: {apiVersion: v1, kind: X}, replicas: 1}":           "names no object",
		"{sleep: 1s, refused: true}":                                        "refused is for apply, patch, scale, delete and attack",
		"{sleep: 1s, as: u}":                                                "as is for apply, patch, scale, delete and attack",
		"{as: nobody, apply: {kind: X}}":                                    `no user is called "nobody"`,
		"{as: u, wait: {object: {" + x + "}, gone: true}}":                  "as is for",
		"{as: u, external: {put: x}}":                                       "knows no users",
		"{refused: never, apply: {kind: X}}":                                "neither true nor may",
		"{refused: true, external: {put: x}}":                               "refused is for",
		"{may: {user: u, verb: get}}":                                       "a resource",
		"{attack: {apply: {kind: X}}}":                                      "an attack needs a name",
		"{name: a, attack: {count: 2}}":                                     "either apply or patch",
		"{name: a, attack: {apply: {}, patch: {object: {kind: X}}}}":        "either apply or patch",
		"{name: a, attack: {count: -1, apply: {}}}":                         "may be negative",
		"{name: a, attack: {patch: {object: {kind: X}}}}":                   "names no object",
		"{name: a, attack: {apply: {kind: X}}, delete: {kind: X, name: x}}": "2 actions",
		"external: {}":                              "0 external changes",
		"external: {put: a, remove: b}":             "2 external changes",
		`external: {put: ""}`:                       "1 external changes",
		"{external: {put: a}, delete: {" + x + "}}": "2 actions",
	} {
		t.Run(step, func(t *testing.T) {
			_, err := scenario.Parse([]byte("name: a\nusers: [{name: u}]\nsteps:\n- " + step +
				"\n- {name: end, quiesce: {for: 1s}}\n"))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)))
		})
	}
}

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
