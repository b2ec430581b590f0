package tenant

import (
	"errors"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// notHeld returns the API server's error for a binding that RBAC forbids to the writer.
func notHeld(o client.Object) error {
	return apierrors.NewForbidden(rbacv1.Resource("rolebindings"), o.GetName(),
		errors.New("user \"op\" (groups=[\"g\"]) is attempting to grant RBAC permissions not currently held:\n{}"))
}

// refuseRole refuses bindings to one role, or to "any", and allows all other writes.
func refuseRole(role string) func(string, client.Object) error {
	return func(verb string, o client.Object) error {
		if b, ok := o.(*rbacv1.RoleBinding); ok && verb != "delete" && (b.RoleRef.Name == role || role == "any") {
			return notHeld(o)
		}
		return nil
	}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

// bound returns the admins' binding to the role admin, with these users.
func bound(t *v1beta1.Tenant, users ...string) *rbacv1.RoleBinding {
	b := binding("a-dev", t)
	b.RoleRef = clusterRoleRef("admin")
	for _, name := range users {
		b.Subjects = append(b.Subjects, user(name))
	}
	return b
}

func admins(names ...string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) {
		t.Spec.Admins = nil
		for _, name := range names {
			t.Spec.Admins = append(t.Spec.Admins, v1beta1.Subject{Kind: v1beta1.SubjectUser, Name: name})
		}
	}
}

// bindingText returns the role and the users of the admins' binding; "" if there is none.
func (w *world) bindingText() string {
	w.t.Helper()
	b := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)
	if b == nil {
		return ""
	}
	text := b.RoleRef.Name
	for _, s := range b.Subjects {
		text += " " + s.Name
	}
	return text
}

func (w *world) ready() metav1.Condition {
	w.t.Helper()
	return reporting.FindCondition(find[v1beta1.Tenant](w, "", "a").Status.Conditions, v1beta1.ConditionReady)
}

func TestAdminRoleChange(t *testing.T) {
	for name, tc := range map[string]struct {
		had          []string // users of the binding to the role admin
		role         string   // of the flag now
		refused      string   // role that the operator may not bind
		exists       bool     // the role of the flag does
		want, reason string
	}{
		"allowed": {[]string{"ann", "bob"}, "view", "", true, "view ann bob",
			v1beta1.ReasonReconciled},
		"refused": {[]string{"ann", "bob"}, "view", "view", true, "admin ann bob",
			v1beta1.ReasonRBACForbidden},
		"refused, one was removed": {[]string{"ann", "bob", "mallory"}, "view", "view", true, "admin ann bob",
			v1beta1.ReasonRBACForbidden},
		"refused, no admin is left": {[]string{"mallory"}, "view", "view", true, "", v1beta1.ReasonRBACForbidden},
		"refused, one is new": {[]string{"ann"}, "view", "view", true, "admin ann",
			v1beta1.ReasonRBACForbidden},
		"refused, and so is the one before": {[]string{"ann", "mallory"}, "view", "any", true, "",
			v1beta1.ReasonRBACForbidden},
		"missing": {[]string{"ann", "bob"}, "view", "", false, "admin ann bob",
			v1beta1.ReasonAdminRoleNotFound},
		"missing, one was removed": {[]string{"ann", "mallory"}, "view", "", false, "admin ann",
			v1beta1.ReasonAdminRoleNotFound},
		"the same, which may not be bound": {[]string{"ann", "mallory"}, "admin", "admin", true, "",
			v1beta1.ReasonRBACForbidden},
		"the same, and all is as it is asked": {[]string{"ann", "bob"}, "admin", "admin", true, "admin ann bob",
			v1beta1.ReasonReconciled},
	} {
		t.Run(name, func(t *testing.T) {
			x := tenant("a", admins("ann", "bob"), owning("a-dev"))
			objects := []client.Object{x, namespace("a-dev", ownedBy(x)), bound(x, tc.had...)}
			if tc.exists && tc.role != "admin" {
				objects = append(objects, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: tc.role}})
			}
			w := newWorld(t, objects...)
			w.r.Options.AdminClusterRole = tc.role
			w.deny = refuseRole(tc.refused)
			_ = w.reconcile() // a refusal is retried, and in the status
			if got := w.bindingText(); got != tc.want {
				t.Errorf("binding %q, want %q", got, tc.want)
			}
			ready := w.ready()
			if ready.Reason != tc.reason {
				t.Errorf("reason %s (%s), want %s", ready.Reason, ready.Message, tc.reason)
			}
			lacks := map[string]string{
				"view": "the operator lacks the right bind on ClusterRole view, so",
				"any":  "the operator lacks the right bind on ClusterRole view, so",
			}
			if !strings.HasPrefix(ready.Message, lacks[tc.refused]) {
				t.Errorf("message %q, want one that begins with %q", ready.Message, lacks[tc.refused])
			}
		})
	}
}

// A newer rule may refuse a name that is in use. A removed admin still loses the rights in
// that namespace, and a new admin gets none.
func TestRemovedAdminLosesRightsUnderRefusedName(t *testing.T) {
	x := tenant("a", naming("dev", "prod"), admins("ann", "new"), owning("a-dev"))
	w := newWorld(t, x, namespace("a-dev", ownedBy(x)), bound(x, "ann", "mallory"))
	w.r.Options.OperatorNamespace = "a-dev"
	w.must(w.reconcile())
	if got := w.bindingText(); got != "admin ann" {
		t.Errorf("binding %q, want that of ann alone", got)
	}
	if ready := w.ready(); ready.Reason != v1beta1.ReasonInvalidSpec {
		t.Errorf("reason %s, want %s", ready.Reason, v1beta1.ReasonInvalidSpec)
	}
	if b := find[rbacv1.RoleBinding](w, "a-prod", adminBindingName); b == nil {
		t.Error("the namespace under an accepted name was not reconciled")
	}
	listed := find[v1beta1.Tenant](w, "", "a").Status.Namespaces
	want := v1beta1.TenantNamespace{Name: "a-dev", UID: "uid-a-dev", Reason: v1beta1.ReasonInvalidSpec}
	if !slices.Contains(listed, want) {
		t.Errorf("status lists %+v, want %+v among them", listed, want)
	}
}

// A claim on the binding counts only if the API server has that Tenant, and if its spec or
// status names the namespace.
func TestObserveOtherTenants(t *testing.T) {
	a := tenant("a", owning("a-dev"))
	sharing := tenant("b", prefix("a-"))
	without := tenant("b")
	still := tenant("b", owning("a-dev"))
	another := tenant("b", prefix("a-"), func(t *v1beta1.Tenant) { t.UID = "uid-anew" })
	for name, tc := range map[string]struct {
		cached, live *v1beta1.Tenant
		claims       *v1beta1.Tenant
		want         bool
	}{
		"a living Tenant that asks for the namespace": {sharing, sharing, sharing, true},
		"one that holds it and asks for it no more":   {still, still, still, true},
		"a Tenant without a part in it":               {without, without, without, false},
		"one that has dropped the name since":         {sharing, without, sharing, false},
		"one that is gone":                            {sharing, nil, sharing, false},
		"one that was made anew":                      {sharing, another, sharing, false},
		"one that never was":                          {nil, nil, sharing, false},
		"one that the cache does not show yet":        {nil, sharing, sharing, false},
		"the Tenant itself":                           {sharing, sharing, a, false},
	} {
		t.Run(name, func(t *testing.T) {
			claimed := binding("a-dev", tc.claims)
			objects := []client.Object{a.DeepCopy(), namespace("a-dev", ownedBy(a)), claimed}
			w := newWorld(t, append(slices.Clone(objects), some(tc.live)...)...)
			w.cache = fakeBuilder(t, append(objects, some(tc.cached)...)...).Build()
			o, err := w.r.observe(t.Context(), a)
			w.must(err)
			if got := o.otherTenants["a-dev"]["uid-b"]; got != tc.want {
				t.Errorf("holders %v, want b among them: %t", o.otherTenants, tc.want)
			}
			if got := ownsBinding(a, claimed, o.otherTenants["a-dev"]); got == tc.want {
				t.Errorf("the Tenant owns the binding: %t", got)
			}
		})
	}
}

func some(t *v1beta1.Tenant) []client.Object {
	if t == nil {
		return nil
	}
	return []client.Object{t.DeepCopy()}
}

// A binding of another existing Tenant is retained, and blocks the release of the
// namespace.
func TestReleaseKeepsBindingOfOtherTenant(t *testing.T) {
	x, other := tenant("a", retaining, deleted, owning("a-dev")), tenant("b", prefix("a-"))
	held := binding("a-dev", other)
	w := newWorld(t, x, other, namespace("a-dev", ownedBy(x)), held)
	w.must(w.cache.Delete(t.Context(), held)) // the first time it does not show the binding
	for range 3 {
		_ = w.reconcile() // the conflict is in the status
		w.sync()
	}
	if find[rbacv1.RoleBinding](w, "a-dev", adminBindingName) == nil {
		t.Error("the binding of a living Tenant was deleted")
	}
	if got := find[v1beta1.Tenant](w, "", "a"); got == nil || len(got.Status.Namespaces) != 1 ||
		got.Status.Namespaces[0].UID != "uid-a-dev" {
		t.Fatalf("the Tenant does not list what it could not release: %+v", got)
	}
	if ready := w.ready(); ready.Reason != v1beta1.ReasonChildConflict ||
		!strings.Contains(ready.Message, "a-dev/"+adminBindingName) {
		t.Errorf("%s: %s does not name the binding", ready.Reason, ready.Message)
	}
	for len(w.recorder.Events) > 0 {
		if event := <-w.recorder.Events; strings.Contains(event, v1beta1.EventNamespaceRetained) {
			t.Errorf("event %q is not true", event)
		}
	}
}

// A cache that does not show a namespace must not drop its UID from the status. The UID
// proves the ownership if the namespace loses its labels meanwhile.
func TestStaleCacheKeepsRecordedUID(t *testing.T) {
	x := tenant("a", owning("a-dev"))
	w := newWorld(t, x, namespace("a-dev"), bound(x, "mallory"))
	w.must(w.cache.Delete(t.Context(), namespace("a-dev")))
	_ = w.reconcile()
	w.sync()
	_ = w.reconcile() // what was refused is made again
	if got := w.bindingText(); got != "admin ann" {
		t.Errorf("binding %q, want that of ann: the namespace is %+v", got,
			find[v1beta1.Tenant](w, "", "a").Status.Namespaces)
	}
}

// A cache may show a namespace before it got its ownership labels. The status must retain
// its name, since the finalizer is removed when the status lists no name.
func TestStaleCacheKeepsRecordedName(t *testing.T) {
	x := tenant("a")
	x.Status.Namespaces = []v1beta1.TenantNamespace{{Name: "a-old", Reason: v1beta1.ReasonPending}}
	w := newWorld(t, x, namespace("a-old"))
	w.must(w.live.Update(t.Context(), namespace("a-old", ownedBy(x))))
	_ = w.reconcile()
	for _, ns := range find[v1beta1.Tenant](w, "", "a").Status.Namespaces {
		if ns.Name == "a-old" {
			return
		}
	}
	t.Error("the status dropped an owned namespace")
}
