package run

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"leasehold.dev/test/harness/scenario"
)

func TestWithoutARight(t *testing.T) {
	rule := func(group string, resources, verbs []string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	right := Right{Group: "apps", Resource: "deployments", Verbs: []string{"create", "patch"}}
	for name, tc := range map[string]struct{ rules, want []rbacv1.PolicyRule }{
		"Whole":         {[]rbacv1.PolicyRule{rule("apps", []string{"deployments"}, []string{"create", "patch"})}, nil},
		"OtherVerbs":    {[]rbacv1.PolicyRule{rule("apps", []string{"deployments"}, []string{"get", "patch"})}, []rbacv1.PolicyRule{rule("apps", []string{"deployments"}, []string{"get"})}},
		"OtherResource": {[]rbacv1.PolicyRule{rule("apps", []string{"deployments", "replicasets"}, []string{"create"})}, []rbacv1.PolicyRule{rule("apps", []string{"replicasets"}, []string{"create"})}},
		"Subresource":   {[]rbacv1.PolicyRule{rule("apps", []string{"deployments/status"}, []string{"patch"})}, []rbacv1.PolicyRule{rule("apps", []string{"deployments/status"}, []string{"patch"})}},
		"OtherGroup":    {[]rbacv1.PolicyRule{rule("", []string{"deployments"}, []string{"create"})}, []rbacv1.PolicyRule{rule("", []string{"deployments"}, []string{"create"})}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(without(tc.rules, right)).To(Equal(tc.want)) })
	}
}

func TestValidateChange(t *testing.T) {
	object := &scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}
	patch := []PatchOperation{{Op: "remove", Path: "/data"}}
	for name, tc := range map[string]struct {
		change Change
		kind   string
		says   string
	}{
		"Flag":       {Change{Name: "a", Flag: "--x"}, scenario.FlagChange, ""},
		"Rule":       {Change{Name: "a", Object: object, Without: &Right{Resource: "pods", Verbs: []string{"get"}}}, scenario.RuleChange, ""},
		"Webhook":    {Change{Name: "a", Object: object, Patch: patch}, scenario.WebhookChange, ""},
		"Definition": {Change{Name: "a", Object: &scenario.Ref{APIVersion: "v1", Kind: "CustomResourceDefinition", Name: "x"}, Patch: patch}, scenario.DefinitionChange, ""},
		"NoName":     {Change{Flag: "--x"}, "", "needs a name"},
		"Colon":      {Change{Name: "a:b", Flag: "--x"}, "", "without a colon"},
		"Both":       {Change{Name: "a", Flag: "--x", Patch: patch}, "", "either of a flag or of an object"},
		"Nothing":    {Change{Name: "a"}, "", "name a flag or an object"},
		"NoPatch":    {Change{Name: "a", Object: object}, "", "either what right"},
		"NoVerbs":    {Change{Name: "a", Object: object, Without: &Right{Resource: "pods"}}, "", "verbs on a resource"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.says != "" {
				g.Expect(tc.change.Validate()).To(MatchError(ContainSubstring(tc.says)))
				return
			}
			g.Expect(tc.change.Validate()).To(Succeed())
			g.Expect(tc.change.Kind()).To(Equal(tc.kind))
		})
	}
}

// changed is a stage with an object of the installation and a plan that changes it
// before the second step that acts.
func changed(t *testing.T, c Change) (*stage, *armed) {
	t.Helper()
	g := NewWithT(t)
	s := newElection(t)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	if c.Object != nil {
		s.client = clientfake.NewClientBuilder().WithRESTMapper(mapper).WithScheme(clientgoscheme.Scheme).Build()
	}
	s.dynamic = dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme, configMap(func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"a": "b"} }))
	s.subject.Changes = []Change{c}
	steps := []scenario.Step{{Apply: applied("a")}, {Wait: &scenario.Wait{}}, {Apply: applied("b")}}
	plan := scenario.Plan{Perturbation: scenario.Changed, Variant: c.Kind(), Target: scenario.Target{Method: scenario.ChangeTarget, Path: c.Name, Nth: 2}}
	a, err := s.arm(t.Context(), scenario.Scenario{Steps: steps}, plan, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a.step(t.Context(), 0)).To(Succeed())
	g.Expect(a.step(t.Context(), 1)).To(Succeed())
	return s, a
}

func TestAnObjectIsChangedAndRestored(t *testing.T) {
	for name, restores := range map[string]bool{"ByTheFault": false, "ByTheOperator": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, a := changed(t, Change{
				Name: "less", Object: &scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "settings"},
				Patch: []PatchOperation{{Op: "remove", Path: "/data"}, {Op: "replace", Path: "/metadata/resourceVersion", Value: "8"}},
			})
			stopped := s.stopsTime()
			g.Expect(a.step(t.Context(), 2)).To(Succeed())
			o, err := s.settings(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.Object).NotTo(HaveKey("data"))
			g.Expect(a.busy()).To(BeTrue())
			by := "restored by the end of the fault"
			if restores {
				by = "restored by the operator"
				o.Object["data"] = map[string]any{"a": "b"}
				fake, ok := s.dynamic.(*dynamicfake.FakeDynamicClient)
				g.Expect(ok).To(BeTrue())
				g.Expect(fake.Tracker().Update(configMaps, o, "ns")).To(Succeed())
			}
			passes(t, stopped, changedFor)
			f := happened(t, a)
			g.Expect(f.Detail).To(And(HavePrefix("configmaps ns/settings was changed by less"), ContainSubstring(by)))
			g.Expect(f.Denies).To(BeFalse())
			o, err = s.settings(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.Object).To(HaveKeyWithValue("data", map[string]any{"a": "b"}))
		})
	}
}

func TestAChangeWithoutEffectDidNotHappen(t *testing.T) {
	g := NewWithT(t)
	_, a := changed(t, Change{
		Name: "same", Object: &scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "settings"},
		Patch: []PatchOperation{{Op: "replace", Path: "/data/a", Value: "b"}},
	})
	g.Expect(a.step(t.Context(), 2)).To(Succeed())
	g.Expect(void(t, a)).To(Equal("same had no effect on configmaps ns/settings"))
}

func TestReplicasRunWithAnotherFlag(t *testing.T) {
	for name, tc := range map[string]struct {
		flag   string
		detail string
		flags  []string // of those that are started
		left   int      // of the first two
	}{
		"Ready":   {"--role=view", "2 replicas ran with --role=view", []string{"--role=view", "--role=view", "", ""}, 0},
		"Unready": {unreadyFlag, "1 replicas ran with " + unreadyFlag, []string{unreadyFlag}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, a := changed(t, Change{Name: "other", Flag: tc.flag})
			a.rollout = 100 * time.Millisecond
			s.keepsRenewing(t, 0)
			s.auditLog = filepath.Join(t.TempDir(), "audit.log")
			g.Expect(os.WriteFile(s.auditLog, nil, 0o600)).To(Succeed())
			a.trial = &trial{prover: s.Prover}
			g.Expect(a.step(t.Context(), 2)).To(Succeed())
			g.Expect(happened(t, a).Detail).To(Equal(tc.detail))
			var flags []string
			for _, w := range s.workers[2:] {
				flags = append(flags, append(w.unlike.args, "")[0])
			}
			g.Expect(flags).To(Equal(tc.flags))
			g.Expect(s.present()).To(HaveLen(2))
			for _, r := range s.present() {
				g.Expect(r.build).To(BeEmpty())
			}
			old := 0
			for _, name := range names(s) {
				if name == "one" || name == "two" {
					old++
				}
			}
			g.Expect(old).To(Equal(tc.left))
		})
	}
}

func TestAnUnknownChangeIsNotArmed(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	s.subject.Changes = []Change{{Name: "other", Flag: "--x"}}
	for id, says := range map[string]string{
		"s:P18-flag:CHANGE:none:1":  "the subject has none of that name",
		"s:P18-rule:CHANGE:other:1": "it is one of a flag",
		"s:P18-flag:CHANGE:other:9": "there are 0",
	} {
		plan, err := scenario.ParsePlan(id)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = s.arm(t.Context(), scenario.Scenario{}, plan, nil)
		g.Expect(err).To(MatchError(ContainSubstring(says)))
	}
	g.Expect(s.changes()).To(Equal([]scenario.Change{{Name: "other", Kind: scenario.FlagChange}}))
}
