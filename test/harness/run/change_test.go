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
	object := &scenario.Ref{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "x"}
	for name, tc := range map[string]struct {
		change InstallationChange
		kind   scenario.FaultName
		says   string
	}{
		"Flag": {InstallationChange{Name: "a", Flag: "--x"}, FlagChange, ""},
		"Rule": {InstallationChange{Name: "a", Object: object, Without: &Right{Resource: "pods", Verbs: []string{"get"}}},
			RuleChange, ""},
		"NoName":  {InstallationChange{Flag: "--x"}, "", "needs a name"},
		"Colon":   {InstallationChange{Name: "a:b", Flag: "--x"}, "", "without a colon"},
		"Both":    {InstallationChange{Name: "a", Flag: "--x", Object: object}, "", "either of a flag or of a role"},
		"Nothing": {InstallationChange{Name: "a"}, "", "name a flag, or as its object a Role or ClusterRole"},
		"NoRole": {InstallationChange{Name: "a", Object: &scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "x"},
			Without: &Right{Resource: "pods", Verbs: []string{"get"}}}, "", "a Role or ClusterRole"},
		"NoRight": {InstallationChange{Name: "a", Object: object}, "", "name the right"},
		"NoVerbs": {InstallationChange{Name: "a", Object: object, Without: &Right{Resource: "pods"}},
			"", "verbs on a resource"},
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
