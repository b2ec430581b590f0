package run

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"

	"leasehold.dev/test/harness/scenario"
)

func TestWithoutARight(t *testing.T) {
	rule := func(group string, resources, verbs []string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	right := Right{Group: "apps", Resource: "deployments", Verbs: []string{"create", "patch"}}
	for name, tc := range map[string]struct{ rules, want []rbacv1.PolicyRule }{
		"Whole": {[]rbacv1.PolicyRule{rule("apps", []string{"deployments"}, []string{"create", "patch"})}, nil},
		"OtherVerbs": {[]rbacv1.PolicyRule{rule("apps", []string{"deployments"}, []string{"get", "patch"})},
			[]rbacv1.PolicyRule{rule("apps", []string{"deployments"}, []string{"get"})}},
		"OtherResource": {[]rbacv1.PolicyRule{rule("apps", []string{"deployments", "replicasets"}, []string{"create"})},
			[]rbacv1.PolicyRule{rule("apps", []string{"replicasets"}, []string{"create"})}},
		"Subresource": {[]rbacv1.PolicyRule{rule("apps", []string{"deployments/status"}, []string{"patch"})},
			[]rbacv1.PolicyRule{rule("apps", []string{"deployments/status"}, []string{"patch"})}},
		"OtherGroup": {[]rbacv1.PolicyRule{rule("", []string{"deployments"}, []string{"create"})},
			[]rbacv1.PolicyRule{rule("", []string{"deployments"}, []string{"create"})}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(without(tc.rules, right)).To(Equal(tc.want)) })
	}
}

func TestValidateChange(t *testing.T) {
	object := &scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}
	patch := []PatchOperation{{Op: "remove", Path: "/data"}}
	for name, tc := range map[string]struct {
		change Change
		kind   scenario.Fault
		says   string
	}{
		"Flag": {Change{Name: "a", Flag: "--x"}, FlagChange, ""},
		"Rule": {Change{Name: "a", Object: object, Without: &Right{Resource: "pods", Verbs: []string{"get"}}},
			RuleChange, ""},
		"Webhook": {Change{Name: "a", Object: object, Patch: patch}, WebhookChange, ""},
		"Definition": {Change{Name: "a", Object: &scenario.Ref{APIVersion: "v1", Kind: "CustomResourceDefinition", Name: "x"},
			Patch: patch}, CRDChange, ""},
		"NoName":  {Change{Flag: "--x"}, "", "needs a name"},
		"Colon":   {Change{Name: "a:b", Flag: "--x"}, "", "without a colon"},
		"Both":    {Change{Name: "a", Flag: "--x", Patch: patch}, "", "either of a flag or of an object"},
		"Nothing": {Change{Name: "a"}, "", "name a flag or an object"},
		"NoPatch": {Change{Name: "a", Object: object}, "", "either what right"},
		"NoVerbs": {Change{Name: "a", Object: object, Without: &Right{Resource: "pods"}}, "", "verbs on a resource"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.says != "" {
				g.Expect(tc.change.Validate()).To(MatchError(ContainSubstring(tc.says)))
				return
			}
			g.Expect(tc.change.Validate()).To(Succeed())
			g.Expect(tc.change.Fault()).To(Equal(tc.kind))
		})
	}
}
