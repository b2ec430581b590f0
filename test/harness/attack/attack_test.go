// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/attack"
	"leasehold.dev/test/harness/scenario"
)

var victim = scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "settings"}

// template returns an object with these texts in its name and data.
func template(name, data string) map[string]any {
	return map[string]any{"kind": "Thing", "metadata": map[string]any{"name": name}, "data": data}
}

func object(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
	o.SetName("t")
	o.SetUID("u1")
	change(o)
	return o
}

func TestSteps(t *testing.T) {
	holes := []string{"http://a", "http://b"}
	marked := object(func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"of": "u1", "app": "x"})
		o.SetAnnotations(map[string]string{"uid": "u1"})
	})
	owned := object(func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u2"}})
	})
	plain := object(func(*unstructured.Unstructured) {})
	reference := func(apiVersion, kind, name, uid string) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": uid}
	}
	patch := func(metadata map[string]any) []scenario.Step {
		return []scenario.Step{{Patch: &scenario.Patch{Object: victim, Merge: map[string]any{"metadata": metadata}}}}
	}
	apply := func(objects ...map[string]any) []scenario.Step {
		var steps []scenario.Step
		for _, o := range objects {
			steps = append(steps, scenario.Step{Apply: o})
		}
		return steps
	}
	for name, tc := range map[string]struct {
		in   attack.Input
		want []scenario.Step
		err  string
	}{
		"Many": {attack.Input{Attack: scenario.Attack{Name: "many-objects", Count: 2,
			Template: template("t-$(index)", "$(other)")}}, apply(template("t-0", "$(other)"), template("t-1", "$(other)")), ""},
		"ManyOfOneName": {attack.Input{Attack: scenario.Attack{Name: "many-objects", Count: 2,
			Template: template("t", "$(index)")}}, nil, "whose name has $(index)"},
		"Endpoints": {attack.Input{Attack: scenario.Attack{Name: "dead-endpoints", Count: 3,
			Template: template("t-$(index)", "$(endpoint)")}, BlackHoles: holes},
			apply(template("t-0", "http://a"), template("t-1", "http://b"), template("t-2", "http://a")), ""},
		"NoBlackHoles": {attack.Input{Attack: scenario.Attack{Name: "dead-endpoints",
			Template: template("t-$(index)", "$(endpoint)")}}, nil, "black holes"},
		"Owners": {attack.Input{Attack: scenario.Attack{Name: "forged-owner-references", Object: &victim}, Victim: owned,
			Owner: plain}, patch(map[string]any{"ownerReferences": []any{reference("v1", "Node", "n", "u2"),
			reference("example.com/v1", "Thing", "t", "u1")}}), ""},
		"OwnerIsGone": {attack.Input{Attack: scenario.Attack{Name: "forged-owner-references", Object: &victim},
			Victim: owned}, nil, "an owner that exist"},
		"Marks": {attack.Input{Attack: scenario.Attack{Name: "altered-marks", Object: &victim,
			Marks: map[string]string{"of": "x", "uid": "x", "absent": "x"}}, Victim: marked},
			patch(map[string]any{"labels": map[string]any{"of": "x"}, "annotations": map[string]any{"uid": "x"},
				"ownerReferences": nil}), ""},
		"Unmarked": {attack.Input{Attack: scenario.Attack{Name: "altered-marks", Object: &victim,
			Marks: map[string]string{"of": "x"}}, Victim: plain}, nil, "none of the marks"},
		"ManyForged": {attack.Input{Attack: scenario.Attack{Name: "many-objects", Template: template("t-$(index)", "$(uid)")},
			Owner: plain}, apply(template("t-0", "u1")), ""},
		"Unknown": {attack.Input{Attack: scenario.Attack{Name: "storm"}}, nil, `none is called "storm"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := attack.Steps(tc.in)
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(BeComparableTo(tc.want))
		})
	}
}
