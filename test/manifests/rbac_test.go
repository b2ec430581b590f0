// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"leasehold.dev/api/v1beta1"
)

// grant is a role of the manager's ServiceAccount. Namespace is empty for a cluster-wide grant.
type grant struct {
	Namespace string              `json:"namespace,omitempty"`
	Role      string              `json:"role"`
	Rules     []rbacv1.PolicyRule `json:"rules"`
}

// grants returns all permissions of the manager through its bindings. A role counts if it is bound,
// even by mistake.
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

// An API server such as OpenShift's lets a client set blockOwnerDeletion only if it may update the owner's finalizers.
// The quota counts kinds that the operator watches: a name without its group counts nothing.
func TestManagerHasTheRightsForChildrenAndQuota(t *testing.T) {
	watched := map[string]bool{}
	var rules []rbacv1.PolicyRule
	for _, g := range grants(t, render(t, "default")) {
		rules = append(rules, g.Rules...)
	}
	for _, rule := range rules {
		if slices.Contains(rule.Verbs, "watch") {
			each(rule.APIGroups, rule.Resources, func(resource string) { watched[resource] = true })
		}
	}
	for _, owner := range []string{"tenants", "markdownviews"} {
		finalizers := v1beta1.GroupVersion.Group + "/" + owner + "/finalizers"
		if len(written(rules...)[finalizers]) == 0 {
			t.Errorf("the manager may not write %s", finalizers)
		}
	}
	for counted := range one[*corev1.ResourceQuota](t, render(t, "quota"), "leasehold").Spec.Hard {
		resource, group, _ := strings.Cut(strings.TrimPrefix(string(counted), "count/"), ".")
		if !watched[strings.TrimPrefix(group+"/"+resource, "/")] {
			t.Errorf("the quota counts %s, which the operator does not watch", counted)
		}
	}
}

// `-update` accepts any change of the golden files; these limits are explicit.
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

// violations returns the limits that a rule of the manager exceeds. An empty namespace means all
// namespaces.
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
		{"Services are never removed", has("services") && intersects(rule.Verbs, "update", "delete")},
		{"ConfigMaps are applied, and removed if immutable", has("configmaps") && intersects(rule.Verbs, "update")},
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

// Each limit rejects a rule that exceeds it, and no other.
func TestViolationsAreFound(t *testing.T) {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	named := func(r rbacv1.PolicyRule, name string) rbacv1.PolicyRule {
		r.ResourceNames = []string{name}
		return r
	}
	const rbac, webhooks, ours = "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "leasehold.dev"
	anywhere, own := map[string][]rbacv1.PolicyRule{
		"": {rule("", "namespaces", "get"), rule("", "secrets", "get"), rule("apps", "deployments", "create", "patch"),
			rule(webhooks, "validatingwebhookconfigurations", "get", "list"), named(rule(rbac, "clusterroles", "bind"), "admin")},
		"no wildcard": {rule("", "namespaces", "*"), rule("", "*/status", "get"),
			{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}}},
		"no escalate":         {rule(rbac, "clusterroles", "escalate")},
		"no impersonate":      {rule("", "users", "impersonate")},
		"no deletecollection": {rule("", "namespaces", "deletecollection")},
		"bind only for the role named": {rule(rbac, "clusterroles", "bind"),
			named(rule(rbac, "clusterroles", "bind"), "cluster-admin")},
		"Secrets by name in the operator's namespace, else only get": {rule("", "secrets", "get", "list")},
		"Leases only in the operator's namespace":                    {rule("coordination.k8s.io", "leases", "get")},
		"events are recorded, never read or removed":                 {rule("events.k8s.io", "events", "create", "get")},
		"webhook configurations are written by name": {
			rule(webhooks, "validatingwebhookconfigurations", "update")},
		"Tenants are patched, never created, updated or deleted":        {rule(ours, "tenants", "create")},
		"StorageBuckets are patched, never created, updated or deleted": {rule(ours, "storagebuckets", "create")},
		"MarkdownViews are only read, but for their status":             {rule(ours, "markdownviews", "get", "patch")},
		"namespaces have no subresources":                               {rule("", "namespaces/finalize", "update")},
		"Pods are read in the operator's namespace only":                {rule("", "pods", "get")},
		"nothing that runs but Deployments, made and never removed": {rule("", "serviceaccounts/token", "create"),
			rule("", "pods/exec", "create"), rule("apps", "deployments", "delete"), rule("apps", "deployments/scale", "patch")},
		"Services are never removed":                       {rule("", "services", "delete")},
		"ConfigMaps are applied, and removed if immutable": {rule("", "configmaps", "update")},
	}, map[string][]rbacv1.PolicyRule{
		"": {rule("", "pods", "get", "list", "watch"), named(rule("", "secrets", "get"), "leasehold-webhook-server-cert")},
		"Secrets by name in the operator's namespace, else only get": {rule("", "secrets", "get", "update")},
		"Pods are read in the operator's namespace only":             {rule("", "pods", "get", "delete")},
	}
	for namespace, broken := range map[string]map[string][]rbacv1.PolicyRule{"": anywhere, operatorNamespace: own} {
		for want, rules := range broken {
			for _, r := range rules {
				if got := strings.Join(violations(namespace, r), "; "); got != want {
					t.Errorf("%v in %q: violates %q, want %q", r, namespace, got, want)
				}
			}
		}
	}
}

// The cluster-wide role `edit` must not grant the creation of namespaces and their admins.
func TestUserRolesAreAggregated(t *testing.T) {
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
		granted, resource := map[string][]string{}, v1beta1.GroupVersion.Group+"/"+want.resource
		for _, rule := range role.Rules {
			each(rule.APIGroups, rule.Resources, func(resource string) { granted[resource] = rule.Verbs })
		}
		verbs := map[string][]string{resource: want.verbs, resource + "/status": {"get"}} // the status is the operator's
		if want.resource == "markdownviews" {
			verbs[resource+"/scale"] = slices.DeleteFunc(slices.Clone(want.verbs),
				func(verb string) bool { return !slices.Contains([]string{"get", "patch", "update"}, verb) })
		}
		if diff := gocmp.Diff(verbs, granted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
