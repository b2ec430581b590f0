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
}

func TestFillLeavesWhatIsNotAName(t *testing.T) {
	NewWithT(t).Expect(scenario.Fill(`{"a": "{team}-{unknown}"} {}`, map[string]string{"team": "t"})).
		To(Equal(`{"a": "t-{unknown}"} {}`))
}

func TestParseRefuses(t *testing.T) {
	rest := "- {name: end, quiesce: {for: 1s}}\n"
	for name, tc := range map[string]struct{ text, want string }{
		"UnknownField":  {"name: a\nstep: []", `unknown field "step"`},
		"NoName":        {"steps:\n" + rest, "the name"},
		"NameWithColon": {"name: a:b\nsteps:\n" + rest, "the name"},
		"NoSteps":       {"name: a", "the last step has to be a quiesce"},
		"NoRestAtEnd":   {"name: a\nsteps:\n" + rest + "- delete: {apiVersion: v1, kind: X, name: x}\n", "the last step"},
		"NoAction":      {"name: a\nsteps:\n- name: x\n" + rest, "step 1 x: it has 0 actions"},
		"TwoActions": {"name: a\nsteps:\n- {apply: {}, delete: {apiVersion: v1, kind: X, name: x}}\n" + rest,
			"2 actions [apply delete]"},
		"NobodyDeleted": {"name: a\nsteps:\n- delete: {apiVersion: v1, kind: X, name: \"\"}\n" + rest, "names no object"},
		"NobodyPatched": {"name: a\nsteps:\n- patch: {object: {apiVersion: v1, kind: \"\", name: x}, merge: {}}\n" + rest,
			"names no object"},
		"WaitForNone": {"name: a\nsteps:\n- wait: {object: {apiVersion: v1, kind: X, name: x}}\n" + rest,
			"either a condition or gone"},
		"WaitForBoth":    {"name: a\nsteps:\n- wait: {object: {apiVersion: v1, kind: X, name: x}, condition: R, gone: true}\n" + rest, "either a condition or gone"},
		"CurrentAndGone": {"name: a\nsteps:\n- wait: {object: {apiVersion: v1, kind: X, name: x}, current: true, gone: true}\n" + rest, "one of them"},
		"FieldNoValue": {"name: a\nsteps:\n- wait: {object: {apiVersion: v1, kind: X, name: x}, field: status.phase}\n" +
			rest, "field and value need each other"},
		"ValueNoField": {"name: a\nsteps:\n- wait: {object: {apiVersion: v1, kind: X, name: x}, exists: true, value: 1}\n" +
			rest, "field and value need each other"},
		"NoPath":       {"name: a\nsteps:\n- wait: {object: {apiVersion: v1, kind: X, name: x}, field: 'status.list[', value: 1}\n" + rest, "a path such as status.phase"},
		"StatusOfNone": {"name: a\nsteps:\n- wait: {object: {apiVersion: v1, kind: X, name: x}, exists: true, status: \"False\"}\n" + rest, "status is that of a condition"},
		"ExistsNoName": {"name: a\nsteps:\n- wait: {object: {apiVersion: v1, kind: X}, exists: true}\n" + rest,
			"names no object"},
		"SleepBackwards": {"name: a\nsteps:\n- sleep: -1s\n" + rest, "cannot sleep for -1s"},
		"SleepNever":     {"name: a\nsteps:\n- sleep: 0s\n" + rest, "0 actions"},
		"SleepNoTime":    {"name: a\nsteps:\n- sleep: long\n" + rest, "invalid duration"},
		"ScaleToNothing": {"name: a\nsteps:\n- scale: {object: {apiVersion: v1, kind: X, name: x}}\n" + rest,
			"needs replicas"},
		"ScaleBelowZero": {"name: a\nsteps:\n- scale: {object: {apiVersion: v1, kind: X, name: x}, replicas: -1}\n" + rest,
			"needs replicas"},
		"NoNameScaled": {"name: a\nsteps:\n- scale: {object: {apiVersion: v1, kind: X}, replicas: 1}\n" + rest,
			"names no object"},
		"RefusedSleep": {"name: a\nsteps:\n- {sleep: 1s, refused: true}\n" + rest,
			"refused is for apply, patch, scale, delete and attack"},
		"SleepAsUser": {"name: a\nusers: [{name: mallory}]\nsteps:\n- {sleep: 1s, as: mallory}\n" + rest,
			"as is for apply, patch, scale, delete and attack"},
		"NoTime":        {"name: a\nsteps:\n- {name: end, quiesce: {for: 0s}}\n", "for how long"},
		"NamelessRest":  {"name: a\nsteps:\n- quiesce: {for: 1s}\n", "a name of its own"},
		"LikeNone":      {"name: a\nsteps:\n- {name: end, quiesce: {for: 1s, like: end}}\n", `step 1 end: like names no earlier quiesce: "end"`},
		"SameRestTwice": {"name: a\nsteps:\n" + rest + rest, "step 2: a quiesce needs a name of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := scenario.Parse([]byte(tc.text))
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestStepsThatAct(t *testing.T) {
	g := NewWithT(t)
	s, err := scenario.Parse([]byte(team))
	g.Expect(err).NotTo(HaveOccurred())
	for i, step := range s.Steps {
		g.Expect(step.Acts()).To(Equal(i%2 == 0), "step %d", i+1)
	}
}
