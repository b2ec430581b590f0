package tenant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"leasehold.dev/api/v1beta1"
)

// A full name is the prefix and a name of the spec. Without a prefix, the Tenant's name takes its place.
func TestNamespaceNames(t *testing.T) {
	for given, want := range map[string][]string{"": {"a-dev", "a-prod"}, "team-x-": {"team-x-dev", "team-x-prod"},
		"x": {"xdev", "xprod"}} {
		got := namespaceNames(tenant("a", prefix(given), naming("dev", "prod")))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("prefix %q (-want +got):\n%s", given, diff)
		}
	}
}

// An admin of each kind gets rights. Users and groups belong to an API group, ServiceAccounts to a namespace.
func TestSubjects(t *testing.T) {
	a := tenant("a", func(t *v1beta1.Tenant) {
		t.Spec.Admins = []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "ann"},
			{Kind: v1beta1.SubjectGroup, Name: "team"},
			{Kind: v1beta1.SubjectServiceAccount, Name: "robot", Namespace: "ci"}}
	})
	want := []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "ann"},
		{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "team"},
		{Kind: "ServiceAccount", Name: "robot", Namespace: "ci"}}
	if diff := cmp.Diff(want, subjects(a)); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
}
