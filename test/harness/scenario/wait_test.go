// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/scenario"
)

const database = `
apiVersion: example.com/v1
kind: Database
metadata: {name: d, generation: 2}
spec: {size: 3, ratio: 1.5, paused: false}
status:
  observedGeneration: 2
  phase: Running
  conditions:
  - {type: Ready, status: "True", reason: Up}
  - {type: Stale, status: "True", observedGeneration: 1}
`

func TestWait_Met(t *testing.T) {
	starting := `{apiVersion: example.com/v1, kind: Database, metadata: {generation: 3}, status: {observedGeneration: 2}}`
	for name, tc := range map[string]struct {
		wait, object string
		want         bool
	}{
		"Exists":         {"exists: true", database, true},
		"Gone":           {"gone: true", database, false},
		"Condition":      {"condition: Ready", database, true},
		"ConditionFalse": {`{condition: Ready, status: "False"}`, database, false},
		"OldCondition":   {"condition: Stale", database, false},
		"Text":           {"{field: status.phase, value: Running}", database, true},
		"LeadingDot":     {"{field: .status.phase, value: Running}", database, true},
		"OtherText":      {"{field: status.phase, value: Failed}", database, false},
		"Integer":        {"{field: spec.size, value: 3}", database, true},
		"TextIsNoNumber": {`{field: spec.size, value: "3"}`, database, false},
		"Fraction":       {"{field: spec.ratio, value: 1.5}", database, true},
		"False":          {"{field: spec.paused, value: false}", database, true},
		"Filter":         {`{field: 'status.conditions[?(@.type=="Ready")].reason', value: Up}`, database, true},
		"Several":        {`{field: 'status.conditions[*].status', value: "True"}`, database, false},
		"Absent":         {"{field: status.endpoint, value: x}", database, false},
		"Current":        {"current: true", database, true},
		"OldGeneration":  {"current: true", starting, false},
		"NoStatusAtAll":  {"current: true", "{apiVersion: example.com/v1, kind: Database}", true},
		"StalledIsNot": {"current: true",
			`{apiVersion: v1, kind: X, status: {conditions: [{type: Stalled, status: "True"}]}}`, false},
		"NotReadyIsNot": {"current: true",
			`{apiVersion: v1, kind: X, status: {conditions: [{type: Ready, status: "False"}]}}`, false},
		"NoConditionAtAll": {"condition: Ready", "{apiVersion: v1, kind: X}", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var w scenario.Wait
			o := &unstructured.Unstructured{}
			g.Expect(yaml.UnmarshalStrict([]byte(tc.wait), &w)).To(Succeed())
			text, err := yaml.YAMLToJSON([]byte(tc.object))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.UnmarshalJSON(text)).To(Succeed())
			g.Expect(w.Met(o)).To(Equal(tc.want), w.String())
		})
	}
}

// A text is no number, and the message shows which of them the object has.
func TestWait_Unmet(t *testing.T) {
	g := NewWithT(t)
	o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"size": int64(1), "parts": []any{"a", "b"}}}}
	ref := scenario.Ref{APIVersion: "v1", Kind: "X", Name: "x"}
	for want, tc := range map[string]struct {
		wait scenario.Wait
		o    *unstructured.Unstructured
	}{
		`X x to have status.size: the text "1"; it has the number 1`: {scenario.Wait{Object: ref, Field: "status.size", Value: "1"}, o},
		`X x to have status.parts[*]: the truth value true; it has the text "a", the text "b"`: {
			scenario.Wait{Object: ref, Field: "status.parts[*]", Value: true}, o},
		`X x to have status.none: the number 2; it has no such field`: {scenario.Wait{Object: ref, Field: "status.none", Value: 2.0}, o},
		`X x to have status.size: the number 1`:                       {scenario.Wait{Object: ref, Field: "status.size", Value: 1.0}, nil},
		"X x to exist":                                                {scenario.Wait{Object: ref, Exists: true}, o},
		"X x to be gone":                                              {scenario.Wait{Object: ref, Gone: true}, o},
		"X x to be current":                                           {scenario.Wait{Object: ref, Current: true}, o},
		"X x to have Ready=True":                                      {scenario.Wait{Object: ref, Condition: "Ready"}, o},
	} {
		g.Expect(tc.wait.Unmet(tc.o)).To(Equal(want))
	}
}
