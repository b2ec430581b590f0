// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const fenceName = "leasehold-fence.leasehold.dev"

type (
	fencePolicy  = admissionregistrationv1.ValidatingAdmissionPolicy
	fenceBinding = admissionregistrationv1.ValidatingAdmissionPolicyBinding
)

// unfenced has the permitted writes that the fence does not cover, with the reason.
var unfenced = map[string]string{
	"coordination.k8s.io/leases":                                   "otherwise no replica could begin to lead",
	"events.k8s.io/events":                                         "an event about what happened may come late",
	"authentication.k8s.io/tokenreviews":                           "the standby serves metrics too; nothing is stored",
	"authorization.k8s.io/subjectaccessreviews":                    "likewise",
	"admissionregistration.k8s.io/mutatingwebhookconfigurations":   "no admission policy ever judges these",
	"admissionregistration.k8s.io/validatingwebhookconfigurations": "likewise",
}

// operations maps the verbs that write to the operations of admission.
var operations = map[string]admissionregistrationv1.OperationType{
	"create": admissionregistrationv1.Create, "update": admissionregistrationv1.Update,
	"patch":  admissionregistrationv1.Update,
	"delete": admissionregistrationv1.Delete, "deletecollection": admissionregistrationv1.Delete,
}

// each calls f with every group/resource; resources of the core group have no group's name.
func each(groups, resources []string, f func(resource string)) {
	for _, group := range groups {
		for _, resource := range resources {
			f(strings.TrimPrefix(group+"/"+resource, "/"))
		}
	}
}

// written returns the resources that the rules allow to write, with the operations of admission.
func written(rules ...rbacv1.PolicyRule) map[string][]admissionregistrationv1.OperationType {
	found := map[string][]admissionregistrationv1.OperationType{}
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			operation, ok := operations[verb]
			if !ok {
				continue
			}
			each(rule.APIGroups, rule.Resources, func(resource string) { found[resource] = append(found[resource], operation) })
		}
	}
	return found
}

// fenced returns the resources that the policy matches in all their versions.
func fenced(t *testing.T, p *fencePolicy) map[string][]admissionregistrationv1.OperationType {
	t.Helper()
	found := map[string][]admissionregistrationv1.OperationType{}
	for _, rule := range p.Spec.MatchConstraints.ResourceRules {
		if !slices.Equal(rule.APIVersions, []string{"*"}) || len(rule.ResourceNames) > 0 ||
			(rule.Scope != nil && *rule.Scope != "*") {
			t.Errorf("%v matches some versions, names or scopes only", rule.Resources)
		}
		each(rule.APIGroups, rule.Resources,
			func(resource string) { found[resource] = append(found[resource], rule.Operations...) })
	}
	return found
}

// gaps returns the differences between the policy and the permissions.
func gaps(writes, fence map[string][]admissionregistrationv1.OperationType) []string {
	var found []string
	for _, resource := range slices.Sorted(maps.Keys(writes)) {
		if _, excepted := unfenced[resource]; excepted {
			continue
		}
		for _, operation := range writes[resource] {
			if !slices.Contains(fence[resource], operation) {
				found = append(found, fmt.Sprintf("%s of %s is not fenced", operation, resource))
			}
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(fence)) {
		if _, excepted := unfenced[resource]; excepted || len(writes[resource]) == 0 {
			found = append(found, resource+" is fenced for nothing")
		}
	}
	return found
}

// A former leader would keep a permission that the fence does not cover.
func TestFenceCoversWhatTheManagerMayWrite(t *testing.T) {
	objects := render(t, "default")
	var rules []rbacv1.PolicyRule
	for _, g := range grants(t, objects) {
		rules = append(rules, g.Rules...)
	}
	writes := written(rules...)
	for _, gap := range gaps(writes, fenced(t, one[*fencePolicy](t, objects, fenceName))) {
		t.Error(gap)
	}
	for resource := range unfenced {
		if len(writes[resource]) == 0 {
			t.Errorf("%s is an exception, and the manager may not write it", resource)
		}
	}
}

func TestGapsAreFound(t *testing.T) {
	rule := func(group, resource string, verbs ...string) map[string][]admissionregistrationv1.OperationType {
		return written(rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs})
	}
	for name, tc := range map[string]struct {
		writes, fence map[string][]admissionregistrationv1.OperationType
		want          []string
	}{
		"the same":        {rule("", "namespaces", "get", "patch"), rule("", "namespaces", "update"), nil},
		"a right to read": {rule("", "namespaces", "get", "bind"), nil, nil},
		"an exception":    {rule("events.k8s.io", "events", "create"), nil, nil},
		"a new resource":  {rule("apps", "deployments", "patch"), nil, []string{"UPDATE of apps/deployments is not fenced"}},
		"a subresource": {rule("apps", "deployments/scale", "patch"), rule("apps", "deployments", "patch"),
			[]string{"UPDATE of apps/deployments/scale is not fenced", "apps/deployments is fenced for nothing"}},
		"another group": {rule("a", "x", "create"), rule("b", "x", "create"),
			[]string{"CREATE of a/x is not fenced", "b/x is fenced for nothing"}},
		"a new verb": {rule("", "services", "create", "delete"), rule("", "services", "create"),
			[]string{"DELETE of services is not fenced"}},
		"a fence too many": {nil, rule("coordination.k8s.io", "leases", "create"),
			[]string{"coordination.k8s.io/leases is fenced for nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, gaps(tc.writes, tc.fence)); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
		})
	}
}

// documented returns the first block after a line of docs/operations.md.
func documented(t *testing.T, line string) string {
	t.Helper()
	_, section, found := strings.Cut(read(t, filepath.Join("docs", "operations.md")), line+"\n")
	_, section, begins := strings.Cut(section, "```\n")
	block, _, ends := strings.Cut(section, "```\n")
	if !found || !begins || !ends {
		t.Fatalf("docs/operations.md has no block after %q", line)
	}
	return block
}

// documentedOverlay renders the overlay that docs/operations.md shows, beside config/default, with the lines
// that are added to its resources.
func documentedOverlay(t *testing.T, resources ...string) []object {
	t.Helper()
	overlay := documented(t, "### In another namespace")
	for _, line := range resources {
		overlay = strings.Replace(overlay, "resources:\n", "resources:\n"+line+"\n", 1)
	}
	config := filepath.Join(t.TempDir(), "config")
	dir := filepath.Join(config, "overlay")
	if err := errors.Join(os.CopyFS(config, os.DirFS(filepath.Join("..", "..", "config"))), os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600)); err != nil {
		t.Fatal(err)
	}
	return decode(t, kustomize(t, dir))
}

// The documented FlowSchema is valid, and selects the requests of the manager's Role for its Lease.
func TestDocumentedFlowSchemaSelectsTheLease(t *testing.T) {
	block := documented(t, "the priority of Kubernetes' own leader elections:")
	schema := one[*flowcontrolv1.FlowSchema](t, decode(t, []byte(block)), "leasehold-leader-election")
	rule, role := schema.Spec.Rules[0], one[*rbacv1.Role](t, render(t, "default"), "leasehold-manager-role")
	if who := rule.Subjects[0].ServiceAccount; who.Namespace != operatorNamespace || who.Name != serviceAccount {
		t.Errorf("it selects ServiceAccount %s/%s", who.Namespace, who.Name)
	}
	var verbs []string
	for _, granted := range role.Rules {
		if slices.Contains(granted.Resources, "leases") {
			verbs = append(verbs, granted.Verbs...)
		}
	}
	selected := rule.ResourceRules[0]
	slices.Sort(verbs)
	slices.Sort(selected.Verbs)
	if diff := gocmp.Diff(slices.Compact(verbs), selected.Verbs); diff != "" {
		t.Errorf("verbs (-granted +selected):\n%s", diff)
	}
	if !slices.Equal(selected.Namespaces, []string{role.Namespace}) ||
		!slices.Equal(selected.Resources, []string{"leases"}) {
		t.Errorf("it selects %q in %q", selected.Resources, selected.Namespaces)
	}
}

// The fence must name the ServiceAccount and the Lease of the manager, also behind an overlay.
func TestFenceNamesTheManager(t *testing.T) {
	overlay := documentedOverlay(t)
	for name, tc := range map[string]struct {
		objects           []object
		prefix, namespace string
	}{
		"default":     {render(t, "default"), "leasehold-", operatorNamespace},
		"certmanager": {render(t, "certmanager"), "leasehold-", operatorNamespace},
		"overlay":     {overlay, "ops-leasehold-", "platform-ops"},
	} {
		t.Run(name, func(t *testing.T) {
			p := one[*fencePolicy](t, tc.objects, tc.prefix+"fence.leasehold.dev")
			b := one[*fenceBinding](t, tc.objects, tc.prefix+"fence.leasehold.dev")
			if b.Spec.PolicyName != p.Name {
				t.Errorf("the binding is of the policy %q, want %q", b.Spec.PolicyName, p.Name)
			}
			lease := one[*rbacv1.Role](t, tc.objects, tc.prefix+"manager-role")
			names := lease.Rules[slices.IndexFunc(lease.Rules,
				func(r rbacv1.PolicyRule) bool { return len(r.ResourceNames) > 0 })].ResourceNames
			if ref := b.Spec.ParamRef; ref.Namespace != lease.Namespace || !slices.Equal(names, []string{ref.Name}) {
				t.Errorf("the fence reads Lease %s/%s, and the manager renews %s/%v", ref.Namespace, ref.Name,
					lease.Namespace, names)
			}
			// The API server reads the Lease for the requests of all users: see policy.yaml.
			if *p.Spec.FailurePolicy != admissionregistrationv1.Ignore ||
				*b.Spec.ParamRef.ParameterNotFoundAction != admissionregistrationv1.AllowAction {
				t.Error("without a Lease every client would be refused")
			}
			d := one[*appsv1.Deployment](t, tc.objects, tc.prefix+"controller-manager")
			manager := "system:serviceaccount:" + d.Namespace + ":" + d.Spec.Template.Spec.ServiceAccountName
			if want := "system:serviceaccount:" + tc.namespace + ":" + tc.prefix + "controller-manager"; manager != want {
				t.Errorf("the manager is %s, want %s", manager, want)
			}
			for user, want := range map[string]bool{manager: true, manager + "2": false, "ann": false, d.Name: false,
				"system:serviceaccount:" + d.Namespace + ":other-controller-manager": false} {
				in := map[string]any{"request": map[string]any{"userInfo": map[string]any{"username": user}}}
				if got := evaluate(t, p.Spec.MatchConditions[0].Expression, in); got != want {
					t.Errorf("the fence applies to %s: %v, want %t", user, got, want)
				}
			}
		})
	}
}

// The kustomize of kubectl 1.31 has no rule for the policy that a binding names, and the pinned one has.
func TestOldKustomizeNamesThePolicy(t *testing.T) {
	var configuration struct {
		NameReference []struct {
			Kind       string
			FieldSpecs []struct{ Kind, Path string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "config", "default", "kustomizeconfig.yaml")), &configuration); err != nil {
		t.Fatal(err)
	}
	for _, reference := range configuration.NameReference {
		for _, field := range reference.FieldSpecs {
			if reference.Kind == "ValidatingAdmissionPolicy" && field.Kind == "ValidatingAdmissionPolicyBinding" &&
				field.Path == "spec/policyName" {
				return
			}
		}
	}
	t.Error("without a rule for spec/policyName, the bindings name no policy: there is no fence, and no error")
}

// A role that names the webhooks' objects has to follow the prefix, as the manager does.
func TestOverlayPrefixesWhatRolesName(t *testing.T) {
	objects := documentedOverlay(t)
	var names []string
	for _, rules := range [][]rbacv1.PolicyRule{
		one[*rbacv1.ClusterRole](t, objects, "ops-leasehold-certificate-rotation-role").Rules,
		one[*rbacv1.Role](t, objects, "ops-leasehold-certificate-rotation-role").Rules,
	} {
		for _, rule := range rules {
			names = append(names, rule.ResourceNames...)
		}
	}
	for _, want := range []string{"mutating-webhook-configuration", "validating-webhook-configuration", "webhook-server-cert"} {
		if !slices.Contains(names, "ops-leasehold-"+want) {
			t.Errorf("the roles name %q, and not ops-leasehold-%s", names, want)
		}
	}
}

// Only the Pod that holds the Lease may write. The expressions are evaluated as in the API server,
// so the expectations do not repeat them.
func TestFenceDecides(t *testing.T) {
	type input = map[string]any
	const unnamed = "the request names no Pod"
	p := one[*fencePolicy](t, render(t, "default"), fenceName)
	for name, tc := range map[string]struct {
		caller, holder any // nil is absent
		refused        string
		namespace      string // of the ServiceAccount
	}{
		"the holder":                   {"manager-a1", "manager-a1_5e9d", "", "ns"},
		"another Pod":                  {"manager-b2", "manager-a1_5e9d", "Pod manager-b2 does not hold", "ns"},
		"a name that the holder's has": {"manager-a", "manager-a1_5e9d", "Pod manager-a does not hold", "ns"},
		"a name that has the holder's": {"manager-a12", "manager-a1_5e9d", "Pod manager-a12 does not hold", "ns"},
		"after a release":              {"manager-a1", "", "Pod manager-a1 does not hold the Lease ns/l, which has no holder", "ns"},
		"before the first holder":      {"manager-a1", nil, "Pod manager-a1 does not hold the Lease ns/l, which has no holder", "ns"},
		"no Pod":                       {nil, "manager-a1_5e9d", unnamed, "ns"},
		"no Pod, after a release":      {nil, "", unnamed, "ns"},
		"another namespace":            {"manager-b2", "manager-a1_5e9d", "", "ns2"},
		"another namespace, no Pod":    {nil, "manager-a1_5e9d", "", "n"},
	} {
		t.Run(name, func(t *testing.T) {
			user := input{"username": "system:serviceaccount:" + tc.namespace + ":leasehold-controller-manager"}
			spec, variables := input{}, input{}
			if tc.caller != nil {
				user["extra"] = input{"authentication.kubernetes.io/pod-name": []any{tc.caller}}
			}
			if tc.holder != nil {
				spec["holderIdentity"] = tc.holder
			}
			in := input{"request": input{"userInfo": user}, "variables": variables,
				"params": input{"metadata": input{"namespace": "ns", "name": "l"}, "spec": spec}}
			for _, v := range p.Spec.Variables {
				variables[v.Name] = evaluate(t, v.Expression, in)
			}
			refused := ""
			for _, v := range p.Spec.Validations {
				if evaluate(t, v.Expression, in).(bool) {
					continue
				}
				refused += v.Message
				if v.MessageExpression != "" {
					refused = evaluate(t, v.MessageExpression, in).(string)
				}
			}
			if !strings.HasPrefix(refused, tc.refused) || (refused == "") != (tc.refused == "") {
				t.Errorf("refused with %q, want %q", refused, tc.refused)
			}
		})
	}
}
