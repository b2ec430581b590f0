// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gstruct"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/scenario"
)

// injectAttack is a scenario with an attack, and a plan for it.
func injectAttack(t *testing.T, run *execution, a scenario.Attack) scenario.Scenario {
	t.Helper()
	s := scenario.Scenario{Name: "s", Users: []scenario.User{mallory}, Steps: []scenario.Step{
		{Apply: applied("before")}, {Name: "storm", As: "mallory", Attack: &a}, {Apply: applied("after")},
	}}
	plan := Plan{Scenario: "s", Fault: attackFault.fault,
		Target: Target{Method: attackTarget, Path: "storm", Nth: 2}}
	var err error
	run.activeFault, err = run.inject(t.Context(), s, plan)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

func TestHostileAttack(t *testing.T) {
	writes := func(name string, count int) scenario.Attack {
		template := applied(name)
		template["data"] = map[string]any{"version": "$(index)"}
		template["metadata"].(map[string]any)["finalizers"] = []any{"example.com/held"}
		return scenario.Attack{Namespace: "ns", Count: count, Apply: template}
	}
	patch := &scenario.Patch{Object: refTo("before"), Merge: map[string]any{"metadata": map[string]any{
		"labels": map[string]any{"of": "mallory"}}}}
	for name, tc := range map[string]struct {
		attack              scenario.Attack
		refused             scenario.Refusal
		happened, decisions int
		detail              string
		left, touched       []string // objects, while it lasts
	}{
		"Many":    {writes("m-$(index)", 3), "", 1, 0, "storm by mallory: 3 of 3 accepted", []string{"m-0", "m-2"}, nil},
		"Refused": {writes("forbidden-$(index)", 1), "", 0, 0, "nothing of the attack was accepted: ", nil, nil},
		"MayBeRefused": {writes("forbidden-$(index)", 1), scenario.MayRefuse, 1, 0, "storm by mallory: 0 of 1 accepted",
			nil, nil},
		"MustBeRefused": {writes("forbidden-$(index)", 1), scenario.MustRefuse, 1, 1, "storm by mallory: 0 of 1 accepted",
			nil, nil},
		"Patch": {scenario.Attack{Namespace: "ns", Patch: patch}, "", 1, 0, "storm by mallory: 1 of 1 accepted",
			[]string{"before"}, []string{"before"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run := newHostileExecution(t, func() bool { return true })
			s := injectAttack(t, run, tc.attack)
			s.Steps[1].Refused = tc.refused
			_, err := run.runSteps(t.Context(), s)
			g.Expect(err).NotTo(HaveOccurred())
			for _, object := range tc.left {
				g.Expect(run.configMap(t, object)).Error().NotTo(HaveOccurred())
			}
			for _, object := range tc.touched {
				g.Expect(run.configMap(t, object)).To(HaveField("Labels", HaveKeyWithValue("of", "mallory")))
			}
			g.Expect(run.activeFault.heal()).To(Succeed())
			run.hostileNamespaces = s.Hostile()
			g.Expect(run.cleanUp(t.Context())).To(Succeed())
			f := run.activeFault.result()
			g.Expect(f.Happened).To(Equal(tc.happened))
			g.Expect(f.Attack).To(Equal(tc.happened > 0))
			g.Expect(f.Detail).To(HavePrefix(tc.detail))
			g.Expect(f.Touched).To(HaveLen(len(tc.touched)))
			for i, key := range f.Touched {
				g.Expect(key.Name).To(Equal(tc.touched[i]))
			}
			g.Expect(run.decisions).To(HaveLen(tc.decisions))
			for _, d := range run.decisions {
				g.Expect(d.Allowed).To(BeFalse())
			}
			for _, object := range tc.left {
				_, err := run.configMap(t, object)
				g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the next run does not meet it")
			}
		})
	}
}

func TestHostileAttack_CleanRunHasNone(t *testing.T) {
	g := NewWithT(t)
	run := newHostileExecution(t, func() bool { return true })
	s := injectAttack(t, run, scenario.Attack{Namespace: "ns", Apply: applied("m-$(index)")})
	g.Expect(run.activeFault.heal()).To(Succeed())
	g.Expect(run.activeFault.result().Happened).To(BeZero())
	run.activeFault = nil
	_, err := run.runSteps(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = run.configMap(t, "m-0")
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	g.Expect(s.Hostile()).To(Equal([]string{"ns"}))
	for _, nth := range []int{0, 1, 9} {
		_, err := run.inject(t.Context(), s,
			Plan{Fault: attackFault.fault, Target: Target{Nth: nth}})
		g.Expect(err).To(MatchError(ContainSubstring("looking for the attack")))
	}
}

// The writes have the number of each, the UID of the owner, and the endpoints in turn.
func TestHostileAttack_Placeholders(t *testing.T) {
	g := NewWithT(t)
	run := newHostileExecution(t, func() bool { return true })
	g.Expect(run.prover.client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "u1"}})).To(Succeed())
	owner := refTo("owner")
	holes := blackHoles{prover: run.prover}
	template := applied("m-$(index)")
	template["data"] = map[string]any{"uid": "$(uid)", "endpoint": "$(endpoint)", "other": "$(other)"}
	attack := scenario.Attack{Count: 3, Endpoints: 2, Owner: &owner, Apply: template}
	steps, err := run.attackSteps(t.Context(), attack, &holes)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(holes.all).To(HaveLen(2))
	g.Expect(holes.close()).To(Succeed())
	g.Expect(steps).To(HaveLen(3))
	for i, step := range steps {
		g.Expect(step.Apply).To(HaveKeyWithValue("metadata", HaveKeyWithValue("name", fmt.Sprint("m-", i))))
		g.Expect(step.Apply).To(HaveKeyWithValue("data", gstruct.MatchAllKeys(gstruct.Keys{
			"uid": Equal("u1"), "endpoint": HavePrefix("http://127.0.0.1:"), "other": Equal("$(other)")})))
	}
	g.Expect(steps[2].Apply["data"]).To(Equal(steps[0].Apply["data"]))
	g.Expect(steps[1].Apply["data"]).NotTo(Equal(steps[0].Apply["data"]))

	gone := refTo("gone")
	_, err = run.attackSteps(t.Context(), scenario.Attack{Owner: &gone, Apply: template}, &holes)
	g.Expect(err).To(MatchError(ContainSubstring("reading the owner")))
	g.Expect(holes.close()).To(Succeed())
}
