package attack_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

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
	finalized := object(func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"own"}) })
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
	kib := resource.MustParse("4")
	for name, tc := range map[string]struct {
		in   attack.Input
		want []scenario.Step
		err  string
	}{
		"Large": {attack.Input{Attack: scenario.Attack{Name: "large-objects", Count: 2, Size: kib,
			Template: template("t-$(index)", "$(padding)")}}, apply(template("t-0", "xxxx"), template("t-1", "xxxx")), ""},
		"LargeOfNoSize": {attack.Input{Attack: scenario.Attack{Name: "large-objects",
			Template: template("t-$(index)", "$(padding)")}}, nil, "needs a size"},
		"LargeUnpadded": {attack.Input{Attack: scenario.Attack{Name: "large-objects", Size: kib,
			Template: template("t-$(index)", "")}}, nil, "$(padding)"},
		"Many": {attack.Input{Attack: scenario.Attack{Name: "many-objects", Count: 2,
			Template: template("t-$(index)", "$(other)")}}, apply(template("t-0", "$(other)"), template("t-1", "$(other)")), ""},
		"ManyOfOneName": {attack.Input{Attack: scenario.Attack{Name: "many-objects", Count: 2,
			Template: template("t", "$(index)")}}, nil, "whose name has $(index)"},
		"Churn": {attack.Input{Attack: scenario.Attack{Name: "high-churn", Count: 2,
			Template: template("t", "$(index)")}}, apply(template("t", "0"), template("t", "1")), ""},
		"ChurnOfMany": {attack.Input{Attack: scenario.Attack{Name: "high-churn", Count: 2,
			Template: template("t-$(index)", "$(index)")}}, nil, "not in the name"},
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
		"Contested": {attack.Input{Attack: scenario.Attack{Name: "contested-finalizers", Object: &victim}, Victim: finalized},
			append(patch(map[string]any{"finalizers": []string{"own", "attack.example.com/contested"}}),
				patch(map[string]any{"finalizers": []string{"own"}})...), ""},
		"ContestOfNothing": {attack.Input{Attack: scenario.Attack{Name: "contested-finalizers", Object: &victim}}, nil,
			"an object that exists"},
		"FilledBeyondNothing": {attack.Input{Attack: scenario.Attack{Name: "filled-object", Object: &victim},
			Victim: plain}, nil, "a size"},
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

// The steps add valid labels, each others, up to the size; the last step adds one.
func TestSteps_FillToTheLabel(t *testing.T) {
	g := NewWithT(t)
	steps, err := attack.Steps(attack.Input{Attack: scenario.Attack{Name: "filled-object", Object: &victim,
		Size: resource.MustParse("64Ki")}, Victim: object(func(*unstructured.Unstructured) {})})
	g.Expect(err).NotTo(HaveOccurred())
	all, size, last := map[string]bool{}, 0, 0
	for _, s := range steps {
		metadata, _ := s.Patch.Merge["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		for key, value := range labels {
			text, _ := value.(string)
			if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(text)...); len(problems) > 0 {
				t.Fatalf("label %s=%s: %v", key, text, problems)
			}
			all[key], size = true, size+len(key)+len(text)
		}
		last = len(labels)
		g.Expect(metadata).To(HaveKeyWithValue("managedFields", []any{map[string]any{}}))
	}
	if last != 1 || size > 64<<10 || size < 63<<10 || len(all)*379 != size {
		t.Errorf("%d labels have %d bytes, the last step adds %d, want one label of 379 bytes less than 64 KiB at most",
			len(all), size, last)
	}
}
