package manifests

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// grant is one role that the manager's ServiceAccount holds. Namespace is empty
// where it holds it everywhere.
type grant struct {
	Namespace string              `json:"namespace,omitempty"`
	Role      string              `json:"role"`
	Rules     []rbacv1.PolicyRule `json:"rules"`
}

// grants returns all rights of the manager through its bindings. A role without a binding
// does not count, and one that is bound by mistake does.
func grants(t *testing.T, objects []object) []grant {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, role := range all[*rbacv1.ClusterRole](objects) {
		rules["ClusterRole//"+role.Name] = role.Rules
	}
	for _, role := range all[*rbacv1.Role](objects) {
		rules["Role/"+role.Namespace+"/"+role.Name] = role.Rules
	}

	var held []grant
	hold := func(namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !slices.Contains(subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: operatorNamespace,
			Name: serviceAccount}) {
			t.Errorf("%s %s in %q is bound to %v, want the manager's ServiceAccount", ref.Kind, ref.Name, namespace, subjects)
		}
		key := ref.Kind + "/" + namespace + "/" + ref.Name
		if ref.Kind == "ClusterRole" {
			key = "ClusterRole//" + ref.Name
		}
		found, ok := rules[key]
		if !ok {
			t.Errorf("a binding in %q refers to %s, which is not shipped", namespace, key)
		}
		held = append(held, grant{Namespace: namespace, Role: ref.Kind + " " + ref.Name, Rules: found})
	}
	for _, b := range all[*rbacv1.ClusterRoleBinding](objects) {
		hold("", b.RoleRef, b.Subjects)
	}
	for _, b := range all[*rbacv1.RoleBinding](objects) {
		hold(b.Namespace, b.RoleRef, b.Subjects)
	}
	slices.SortFunc(held, func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Role, b.Role))
	})
	return held
}

// The golden files can be updated without a thought; these cannot.
func TestManagerRightsAreNarrow(t *testing.T) {
	for _, dir := range []string{"default", "certmanager"} {
		t.Run(dir, func(t *testing.T) {
			for _, g := range grants(t, render(t, dir)) {
				for _, rule := range g.Rules {
					for _, broken := range violations(g.Namespace, rule) {
						t.Errorf("%s in %q: %s: %v", g.Role, g.Namespace, broken, rule)
					}
				}
			}
		})
	}
}

// violations returns the limits that a rule of the manager exceeds. An empty namespace is a
// right in all namespaces.
func violations(namespace string, rule rbacv1.PolicyRule) []string {
	reads := []string{"get", "list", "watch"}
	onlyReads := !slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains(reads, verb) })
	has := func(resource string) bool { return slices.Contains(rule.Resources, resource) }
	hasPrefix := func(prefix string) bool {
		return slices.ContainsFunc(rule.Resources, func(r string) bool { return strings.HasPrefix(r, prefix) })
	}
	limits := []struct {
		name   string
		broken bool
	}{
		{"no wildcard", slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs),
			"*") || hasPrefix("*")},
		{"no escalate", slices.Contains(rule.Verbs, "escalate")},
		{"no impersonate", slices.Contains(rule.Verbs, "impersonate")},
		{"no deletecollection", slices.Contains(rule.Verbs, "deletecollection")},
		{"bind only for the role named", slices.Contains(rule.Verbs, "bind") &&
			(!slices.Equal(rule.ResourceNames, []string{"admin"}) || !slices.Equal(rule.Resources, []string{"clusterroles"}))},
		{"Secrets by name in the operator's namespace, else only get", has("secrets") &&
			!slices.Equal(rule.Verbs, []string{"get"}) &&
			(namespace != operatorNamespace || !slices.Equal(rule.ResourceNames, []string{"leasehold-webhook-server-cert"}))},
		{"Leases only in the operator's namespace", has("leases") && namespace != operatorNamespace},
		{"events are recorded, never read or removed", has("events") &&
			!slices.Equal(rule.Verbs, []string{"create", "patch"})},
		{"webhook configurations are written by name", (hasPrefix("mutatingwebhook") || hasPrefix("validatingwebhook")) &&
			!onlyReads && len(rule.ResourceNames) == 0},
		{"Tenants are patched, never created, updated or deleted", has("tenants") &&
			intersects(rule.Verbs, "create", "update", "delete")},
		{"StorageBuckets are patched, never created, updated or deleted", has("storagebuckets") &&
			intersects(rule.Verbs, "create", "update", "delete")},
		{"namespaces have no subresources", hasPrefix("namespaces/")},
		{"MarkdownViews are only read, but for their status", has("markdownviews") && !onlyReads},
		{"Pods are read in the operator's namespace only", has("pods") && (namespace != operatorNamespace || !onlyReads)},
		{"nothing that runs but Deployments, made and never removed", hasPrefix("pods/") || hasPrefix("serviceaccounts") ||
			hasPrefix("deployments/") || (hasPrefix("deployments") && intersects(rule.Verbs, "update", "delete"))},
		{"content and Services are never removed", (has("configmaps") || has("services")) &&
			intersects(rule.Verbs, "update", "delete")},
	}
	var broken []string
	for _, limit := range limits {
		if limit.broken {
			broken = append(broken, limit.name)
		}
	}
	return broken
}

func intersects(list []string, of ...string) bool {
	return slices.ContainsFunc(of, func(s string) bool { return slices.Contains(list, s) })
}

// The limits are limits: each catches a rule made to overstep it.
func TestViolationsAreSeen(t *testing.T) {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	named := func(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
		r.ResourceNames = names
		return r
	}
	for name, tc := range map[string]struct {
		namespace string
		rule      rbacv1.PolicyRule
		want      []string
	}{
		"a harmless rule": {"", rule("", "namespaces", "get"), nil},
		"every verb":      {"", rule("", "namespaces", "*"), []string{"no wildcard"}},
		"every status":    {"", rule("", "*/status", "get"), []string{"no wildcard"}},
		"every URL": {"", rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
			[]string{"no wildcard"}},
		"escalate": {"", rule("rbac.authorization.k8s.io", "clusterroles", "escalate"),
			[]string{"no escalate"}},
		"impersonate": {"", rule("", "users", "impersonate"), []string{"no impersonate"}},
		"all at once": {"", rule("", "namespaces", "deletecollection"), []string{"no deletecollection"}},
		"bind any role": {"", rule("rbac.authorization.k8s.io", "clusterroles", "bind"),
			[]string{"bind only for the role named"}},
		"bind cluster-admin": {"", named(rule("rbac.authorization.k8s.io", "clusterroles", "bind"),
			"cluster-admin"), []string{"bind only for the role named"}},
		"Secrets everywhere": {"", rule("", "secrets", "get", "list"),
			[]string{"Secrets by name in the operator's namespace, else only get"}},
		"every Secret of its own": {operatorNamespace, rule("", "secrets", "get", "update"),
			[]string{"Secrets by name in the operator's namespace, else only get"}},
		"one Secret at a time": {"", rule("", "secrets", "get"), nil},
		"Leases everywhere": {"", rule("coordination.k8s.io", "leases", "get"),
			[]string{"Leases only in the operator's namespace"}},
		"reads events": {"", rule("events.k8s.io", "events", "create", "get"),
			[]string{"events are recorded, never read or removed"}},
		"makes StorageBuckets": {"", rule("leasehold.dev", "storagebuckets", "create"),
			[]string{"StorageBuckets are patched, never created, updated or deleted"}},
		"any webhook configuration": {"", rule("admissionregistration.k8s.io", "validatingwebhookconfigurations",
			"update"), []string{"webhook configurations are written by name"}},
		"reads webhook configurations": {"",
			rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get", "list"), nil},
		"makes Tenants": {"", rule("leasehold.dev", "tenants", "create"),
			[]string{"Tenants are patched, never created, updated or deleted"}},
		"finalizes namespaces": {"", rule("", "namespaces/finalize", "update"),
			[]string{"namespaces have no subresources"}},
		"tokens of service accounts": {"", rule("", "serviceaccounts/token", "create"),
			[]string{"nothing that runs but Deployments, made and never removed"}},
		"runs a command in a Pod": {"", rule("", "pods/exec", "create"),
			[]string{"nothing that runs but Deployments, made and never removed"}},
		"Pods everywhere": {"", rule("", "pods", "get"),
			[]string{"Pods are read in the operator's namespace only"}},
		"removes Pods of its own": {operatorNamespace, rule("", "pods", "get", "delete"),
			[]string{"Pods are read in the operator's namespace only"}},
		"reads Pods of its own": {operatorNamespace, rule("", "pods", "get", "list", "watch"), nil},
		"removes Deployments": {"", rule("apps", "deployments", "delete"),
			[]string{"nothing that runs but Deployments, made and never removed"}},
		"scales Deployments": {"", rule("apps", "deployments/scale", "patch"),
			[]string{"nothing that runs but Deployments, made and never removed"}},
		"makes Deployments": {"", rule("apps", "deployments", "create", "patch"), nil},
		"removes ConfigMaps": {"", rule("", "configmaps", "delete"),
			[]string{"content and Services are never removed"}},
		"removes Services": {"", rule("", "services", "delete"),
			[]string{"content and Services are never removed"}},
		"patches MarkdownViews": {"", rule("leasehold.dev", "markdownviews", "get", "patch"),
			[]string{"MarkdownViews are only read, but for their status"}},
		"one Secret of its own": {operatorNamespace,
			named(rule("", "secrets", "get"), "leasehold-webhook-server-cert"), nil},
		"binds the tenants' admin role": {"", named(rule("rbac.authorization.k8s.io", "clusterroles", "bind"), "admin"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, violations(tc.namespace, tc.rule)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// The API server's addresses are in default: prefix and namespace must reach the
// subject there and leave the Role where it is.
func TestAPIServerAddressesAreInDefault(t *testing.T) {
	for _, dir := range []string{"default", "certmanager"} {
		t.Run(dir, func(t *testing.T) {
			objects := render(t, dir)
			if role := one[*rbacv1.Role](t, objects, "leasehold-api-server-addresses"); role.Namespace != "default" {
				t.Errorf("the Role is in %q, want default", role.Namespace)
			}
			binding := one[*rbacv1.RoleBinding](t, objects, "leasehold-api-server-addresses")
			if binding.Namespace != "default" {
				t.Errorf("the RoleBinding is in %q, want default", binding.Namespace)
			}
			want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: serviceAccount, Namespace: operatorNamespace}}
			if diff := gocmp.Diff(want, binding.Subjects); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
		})
	}
}

// A cluster-wide `edit` must not be enough to make namespaces and their admins.
func TestPeoplesRolesAreAggregated(t *testing.T) {
	objects := render(t, "default")
	const aggregate = "rbac.authorization.k8s.io/aggregate-to-"
	for name, want := range map[string]struct {
		resource, to string
		verbs        []string
	}{
		"leasehold-tenant-editor-role": {"tenants", "admin",
			[]string{"create", "delete", "get", "list", "patch", "update", "watch"}},
		"leasehold-tenant-viewer-role": {"tenants", "view", []string{"get", "list", "watch"}},
		"leasehold-storagebucket-editor-role": {"storagebuckets", "edit",
			[]string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}},
		"leasehold-markdownview-editor-role": {"markdownviews", "edit",
			[]string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}},
		"leasehold-markdownview-viewer-role":  {"markdownviews", "view", []string{"get", "list", "watch"}},
		"leasehold-storagebucket-viewer-role": {"storagebuckets", "view", []string{"get", "list", "watch"}},
	} {
		role := one[*rbacv1.ClusterRole](t, objects, name)
		var to []string
		for label, value := range role.Labels {
			if target, ok := strings.CutPrefix(label, aggregate); ok && value == "true" {
				to = append(to, target)
			}
		}
		if !slices.Equal(to, []string{want.to}) {
			t.Errorf("%s is added to %v, want %s only", name, to, want.to)
		}
		for _, rule := range role.Rules {
			if slices.Equal(rule.Resources, []string{want.resource}) && !slices.Equal(rule.Verbs, want.verbs) {
				t.Errorf("%s may %v %s, want %v", name, rule.Verbs, want.resource, want.verbs)
			}
			if intersects(rule.Resources, want.resource+"/status") && !slices.Equal(rule.Verbs, []string{"get"}) {
				t.Errorf("%s may %v the status, want get: status is the operator's", name, rule.Verbs)
			}
		}
	}
}
