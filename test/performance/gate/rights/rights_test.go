package rights_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/performance/gate/rights"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/stage"
)

const (
	root    = "../../../.."
	manager = "system:serviceaccount:leasehold-system:leasehold-controller-manager"
)

func TestACheckoutHasTheRightsThatItHas(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := stage.Checkout{Dir: root}
	rows, err := rights.Check(t.Context(), row.Pair{Base: c, Head: c, Bench: stage.Bench{Say: t.Logf}})
	g.Expect(err).NotTo(HaveOccurred())
	ids := map[string]bool{}
	for _, r := range rows {
		if r.Verdict != row.Same {
			t.Errorf("%s is %s: %s", r.ID, r.Verdict, r.Reason)
		}
		if ids[r.ID] {
			t.Errorf("%s is there twice", r.ID)
		}
		ids[r.ID] = true
	}
	g.Expect(ids).To(HaveKey("rights/" + manager))
	g.Expect(ids).To(HaveKey("rights/webhook vtenant.leasehold.dev"))
	g.Expect(ids).To(HaveKey("rights/Namespace leasehold-system"))
}

// change edits the objects of head.
type change func(t *testing.T, objs []*unstructured.Unstructured) []*unstructured.Unstructured

// edit has a function change the one object of a kind that has this name.
func edit(kind, name string, f func(obj map[string]any)) change {
	return func(t *testing.T, objs []*unstructured.Unstructured) []*unstructured.Unstructured {
		t.Helper()
		f(objs[find(t, objs, kind, name)].Object)
		return objs
	}
}

func without(kind, name string) change {
	return func(t *testing.T, objs []*unstructured.Unstructured) []*unstructured.Unstructured {
		t.Helper()
		i := find(t, objs, kind, name)
		return slices.Delete(objs, i, i+1)
	}
}

func with(text string) change {
	return func(t *testing.T, objs []*unstructured.Unstructured) []*unstructured.Unstructured {
		t.Helper()
		obj := &unstructured.Unstructured{}
		NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &obj.Object)).To(Succeed())
		return append(objs, obj)
	}
}

func find(t *testing.T, objs []*unstructured.Unstructured, kind, name string) int {
	t.Helper()
	i := slices.IndexFunc(objs, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("no %s %s is rendered", kind, name)
	}
	return i
}

// set puts a value at a path, of which the numbers are places in lists.
func set(obj any, value any, path ...any) {
	for _, step := range path[:len(path)-1] {
		switch step := step.(type) {
		case string:
			obj = obj.(map[string]any)[step]
		case int:
			obj = obj.([]any)[step]
		}
	}
	obj.(map[string]any)[path[len(path)-1].(string)] = value
}

func rule(verb, group, resource string) map[string]any {
	return map[string]any{"verbs": []any{verb}, "apiGroups": []any{group}, "resources": []any{resource}}
}

// cases are what differs when config/default is changed, by ID without its beginning.
type cases map[string]struct {
	change change
	want   map[string]row.Verdict
}

func TestWhoHasMoreRightsIsFound(t *testing.T) {
	t.Parallel()
	cases{
		"one right more": {edit("ClusterRole", "leasehold-manager-role", func(o map[string]any) {
			o["rules"] = append(o["rules"].([]any), rule("create", "", "secrets"))
		}), map[string]row.Verdict{manager + ": create secrets": row.Worse}},
		"a right that another rule covers": {edit("ClusterRole", "leasehold-manager-role", func(o map[string]any) {
			o["rules"] = append(o["rules"].([]any), rule("get", "", "namespaces"))
		}), nil},
		"a right in all namespaces that it has in one": {edit("ClusterRole", "leasehold-manager-role", func(o map[string]any) {
			o["rules"] = append(o["rules"].([]any), rule("create", "coordination.k8s.io", "leases"))
		}), map[string]row.Verdict{manager + ": create leases.coordination.k8s.io": row.Worse}},
		"a right in one namespace that it has in all": {edit("Role", "leasehold-manager-role", func(o map[string]any) {
			o["rules"] = append(o["rules"].([]any), rule("get", "", "namespaces"))
		}), nil},
		"any object in place of one": {edit("Role", "leasehold-manager-role", func(o map[string]any) {
			delete(o["rules"].([]any)[1].(map[string]any), "resourceNames")
		}), map[string]row.Verdict{
			manager + ": get leases.coordination.k8s.io in leasehold-system":    row.Worse,
			manager + ": list leases.coordination.k8s.io in leasehold-system":   row.Worse,
			manager + ": watch leases.coordination.k8s.io in leasehold-system":  row.Worse,
			manager + ": update leases.coordination.k8s.io in leasehold-system": row.Worse,
		}},
		"one right less": {edit("ClusterRole", "leasehold-manager-role", func(o map[string]any) {
			o["rules"].([]any)[0].(map[string]any)["verbs"] = []any{"get", "list", "watch"}
		}), map[string]row.Verdict{manager + ": patch tenants.leasehold.dev": row.Better}},
		"more for whom an administrator binds": {edit("ClusterRole", "leasehold-metrics-reader", func(o map[string]any) {
			o["rules"] = append(o["rules"].([]any), map[string]any{"verbs": []any{"get"}, "nonResourceURLs": []any{"/debug/*"}})
		}), map[string]row.Verdict{"whoever has ClusterRole leasehold-metrics-reader: get /debug/*": row.Worse}},
		"more for all who may view": {edit("ClusterRole", "leasehold-tenant-viewer-role", func(o map[string]any) {
			o["rules"] = append(o["rules"].([]any), rule("delete", "leasehold.dev", "tenants"))
		}), map[string]row.Verdict{"whoever has ClusterRole view: delete tenants.leasehold.dev": row.Worse}},
		"a role that nobody has": {with(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: idle}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`), map[string]row.Verdict{"whoever has ClusterRole idle": row.New}},
		"a role that all admins get": {with(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: more, labels: {rbac.authorization.k8s.io/aggregate-to-cluster-reader: "true"}}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
`), map[string]row.Verdict{"whoever has ClusterRole cluster-reader": row.Worse}},
		"the operator bound to a role of Kubernetes": {with(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: leasehold-controller-manager, namespace: leasehold-system}]
`), map[string]row.Verdict{manager + ": all of ClusterRole cluster-admin everywhere": row.Worse}},
		"somebody else bound": {with(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: all, namespace: leasehold-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leasehold-manager-role}
subjects: [{kind: Group, name: "system:authenticated"}]
`), map[string]row.Verdict{"group:system:authenticated": row.Worse}},
	}.hold(t)
}

func TestWhatIsGuardedLessIsFound(t *testing.T) {
	t.Parallel()
	const deployment, policy = "Deployment leasehold-system/leasehold-controller-manager: ", "ValidatingAdmissionPolicy leasehold-fence.leasehold.dev"
	cases{
		"a writable root file system": {edit("Deployment", "leasehold-controller-manager", func(o map[string]any) {
			set(o, false, "spec", "template", "spec", "containers", 0, "securityContext", "readOnlyRootFilesystem")
		}), map[string]row.Verdict{deployment + "read-only root file system in container manager": row.Worse}},
		"more privileges": {edit("Deployment", "leasehold-controller-manager", func(o map[string]any) {
			set(o, true, "spec", "template", "spec", "containers", 0, "securityContext", "allowPrivilegeEscalation")
			set(o, map[string]any{"type": "Unconfined"}, "spec", "template", "spec", "securityContext", "seccompProfile")
		}), map[string]row.Verdict{
			deployment + "Pods against Pod Security restricted: allowPrivilegeEscalation != false": row.Worse,
			deployment + "Pods against Pod Security restricted: seccompProfile":                    row.Worse,
		}},
		"a weaker namespace": {edit("Namespace", "leasehold-system", func(o map[string]any) {
			set(o, "baseline", "metadata", "labels", "pod-security.kubernetes.io/enforce")
		}), map[string]row.Verdict{"Namespace leasehold-system: Pod Security enforces restricted": row.Worse}},
		"a webhook that may fail": {edit("ValidatingWebhookConfiguration", "leasehold-validating-webhook-configuration", func(o map[string]any) {
			set(o, "Ignore", "webhooks", 0, "failurePolicy")
		}), map[string]row.Verdict{"webhook vmarkdownview.leasehold.dev: failurePolicy Fail": row.Worse}},
		"a webhook that may not fail any more": {edit("ValidatingWebhookConfiguration", "leasehold-validating-webhook-configuration", func(o map[string]any) {
			set(o, "Fail", "webhooks", 2, "failurePolicy")
		}), map[string]row.Verdict{"webhook vtenant-delete.leasehold.dev: failurePolicy Fail": row.Better}},
		"a webhook that is asked less": {edit("ValidatingWebhookConfiguration", "leasehold-validating-webhook-configuration", func(o map[string]any) {
			set(o, []any{"CREATE"}, "webhooks", 0, "rules", 0, "operations")
			set(o, map[string]any{"matchLabels": map[string]any{"checked": "yes"}}, "webhooks", 0, "namespaceSelector")
		}), map[string]row.Verdict{
			"webhook vmarkdownview.leasehold.dev: asked about UPDATE leasehold.dev/v1beta1/markdownviews": row.Worse,
			"webhook vmarkdownview.leasehold.dev: only asked about namespaces with checked=yes":           row.Worse,
		}},
		"no webhooks": {without("MutatingWebhookConfiguration", "leasehold-mutating-webhook-configuration"),
			map[string]row.Verdict{"webhook mtenant.leasehold.dev": row.Worse}},
		"a fence that only tells": {edit("ValidatingAdmissionPolicyBinding", "leasehold-fence.leasehold.dev", func(o map[string]any) {
			set(o, []any{"Audit"}, "spec", "validationActions")
		}), map[string]row.Verdict{"ValidatingAdmissionPolicyBinding leasehold-fence.leasehold.dev: validationActions Deny": row.Worse}},
		"no fence": {without("ValidatingAdmissionPolicy", "leasehold-fence.leasehold.dev"), map[string]row.Verdict{policy: row.Worse}},
		"a fence with a gap": {edit("ValidatingAdmissionPolicy", "leasehold-fence.leasehold.dev", func(o map[string]any) {
			set(o, []any{map[string]any{"expression": "variables.caller != ''"}}, "spec", "validations")
			set(o, []any{map[string]any{"name": "weekdays", "expression": "weekday()"}}, "spec", "matchConditions")
		}), map[string]row.Verdict{
			policy + ": validation variables.caller == '' || variables.holder.startsWith(variables.caller + '_')": row.Worse,
			policy + ": only asked if weekday()": row.Worse,
			policy + ": only asked if request.userInfo.username == 'system:serviceaccount:' + 'leasehold-system' + ':' + 'leasehold-controller-manager'": row.Better,
		}},
	}.hold(t)
}

func (all cases) hold(t *testing.T) {
	t.Helper()
	objs, err := env.Render(t.Context(), "", root+"/config/default")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var base, head []*unstructured.Unstructured
			for _, obj := range objs {
				base, head = append(base, obj.DeepCopy()), append(head, obj.DeepCopy())
			}
			rows, err := rights.Compare(base, test.change(t, head))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			got := map[string]row.Verdict{}
			for _, r := range rows {
				if r.Verdict == row.Same {
					continue
				}
				got[strings.TrimPrefix(r.ID, "rights/")] = r.Verdict
				if r.Reason == "" {
					t.Errorf("%s has no reason", r.ID)
				}
			}
			want := maps.Clone(test.want)
			if want == nil {
				want = map[string]row.Verdict{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what is not the same (-want +got):\n%s", diff)
			}
		})
	}
}
