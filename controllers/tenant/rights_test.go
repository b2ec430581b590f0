package tenant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// refuseCorrection fails each change of a binding that exists.
func refuseCorrection(err error) refusal {
	return func(q reconcilertest.Request) error {
		if strings.Contains(q.Name, " RoleBinding ") &&
			(q.Verb == "patch" || q.Verb == "apply" && q.Object.GetResourceVersion() != "1") {
			return err
		}
		return nil
	}
}

// A removed admin loses access whatever refuses the desired binding. The others keep theirs if the API server permits
// that, and a binding that cannot be created grants no new access.
func TestRemovedAdminsLoseTheirRights(t *testing.T) {
	const ready, forbidden, missing, denied, failed = v1beta1.ReasonReconciled, v1beta1.ReasonRBACForbidden,
		v1beta1.ReasonAdminRoleNotFound, v1beta1.ReasonAdmissionDenied, v1beta1.ReasonReconcileFailed
	const ending, invalidSpec = v1beta1.ReasonNamespaceTerminating, v1beta1.ReasonInvalidSpec
	large := apierrors.NewInternalError(errors.New("trying to send message larger than max (2772577 vs. 2097152)"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "RoleBinding"}, adminBindingName, nil)
	// Without a reason of its own, a policy denies with the code of invalid content.
	byPolicy := apierrors.NewInvalid(schema.GroupKind{Kind: "RoleBinding"}, adminBindingName, nil)
	byPolicy.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Message: "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"}}

	toView := func(o *Options) { o.AdminClusterRole = "view" }
	toNone := func(o *Options) { o.AdminClusterRole = "none" }
	refusing := func(o *Options) { o.OperatorNamespace = "a-dev" } // a newer rule refuses the name
	x := tenant("a", admins("ann", "bob"), owning("a-dev"))
	type edit = func(*corev1.Namespace, *rbacv1.RoleBinding)
	held := func(_ *corev1.Namespace, b *rbacv1.RoleBinding) { heldBack(b) }
	theirs := func(_ *corev1.Namespace, b *rbacv1.RoleBinding) { *b = *binding("a-dev", sharing, "eve") }
	// The namespace controller deletes the binding, possibly late. A finalizer delays that.
	terminates := func(edits ...edit) edit {
		return func(ns *corev1.Namespace, b *rbacv1.RoleBinding) {
			for _, change := range edits {
				change(ns, b)
			}
			terminating(ns)
			heldBack(ns)
		}
	}
	for name, tc := range map[string]struct {
		had    string // the users of the binding to the role admin
		option func(*Options)
		deny   refusal
		change edit
		want   string
		reason string // "" if the status is not written
	}{
		"allowed":                  {"ann mallory", nil, nil, nil, "admin ann bob", ready},
		"another role":             {"ann bob", toView, nil, nil, "view ann bob", ready},
		"refused":                  {"ann bob", toView, refuseRole("view"), nil, "admin ann bob", forbidden},
		"refused, one was removed": {"ann bob mallory", toView, refuseRole("view"), nil, "admin ann bob", forbidden},
		"refused, none is left":    {"mallory", toView, refuseRole("view"), nil, "", forbidden},
		"refused, one is new":      {"ann", toView, refuseRole("view"), nil, "admin ann", forbidden},
		"refused, and the former":  {"ann mallory", toView, refuseRole("any"), nil, "", forbidden},
		"the same, refused":        {"ann mallory", nil, refuseRole("admin"), nil, "", forbidden},
		"the same, unchanged":      {"ann bob", nil, refuseRole("admin"), nil, "admin ann bob", ready},
		"missing":                  {"ann bob", toNone, nil, nil, "admin ann bob", missing},
		"missing, one was removed": {"ann mallory", toNone, nil, nil, "admin ann", missing},

		"too large":       {"ann mallory", nil, refuseCorrection(large), nil, "admin ann bob", ready},
		"invalid":         {"ann mallory", nil, refuseCorrection(invalid), nil, "admin ann bob", ready},
		"a policy":        {"ann mallory", nil, refuseCorrection(byPolicy), nil, "admin ann mallory", denied},
		"another failure": {"ann mallory", nil, refuseCorrection(errors.New("boom")), nil, "admin ann mallory", failed},
		"one Conflict":    {"ann mallory", nil, refuseCorrection(changed()), nil, "admin ann mallory", ""},

		"terminating":                  {"ann bob", nil, nil, terminates(), "admin ann bob", ending},
		"terminating, one was removed": {"ann mallory", nil, nil, terminates(), "admin ann", ending},
		"terminating, none is left":    {"mallory", nil, nil, terminates(), "", ending},
		"terminating, held":            {"ann bob", nil, nil, terminates(held), "", ending},
		"terminating, theirs, held":    {"", nil, nil, terminates(theirs, held), "admin eve", ending},

		"a refused name":         {"ann mallory", refusing, nil, nil, "admin ann", invalidSpec},
		"a refused name, theirs": {"", refusing, nil, theirs, "admin eve", invalidSpec},
	} {
		t.Run(name, func(t *testing.T) {
			ns, b := namespace("a-dev", ownedBy(x)), binding("a-dev", x, strings.Fields(tc.had)...)
			if tc.change != nil {
				tc.change(ns, b)
			}
			w := newWorld(t, x, sharing, ns, b, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}})
			if tc.option != nil {
				tc.option(&w.r.Options)
			}
			w.deny = tc.deny
			_, _ = w.reconcile() // a refusal is retried, and in the status
			if got := w.bindingText(); got != tc.want || w.ready().Reason != tc.reason {
				t.Errorf("binding %q and reason %s (%s), want %q and %s", got, w.ready().Reason, w.ready().Message, tc.want,
					tc.reason)
			}
		})
	}
}

// Conflicts in a row are a contest. The binding is then replaced, which needs no version.
func TestContestedBindingIsReplaced(t *testing.T) {
	w := newWorld(t, provision(
		func(p *provisioned) { p.bindings[0].Subjects = append(p.bindings[0].Subjects, user("mallory")) })...)
	w.deny = refuseCorrection(changed())
	for _, want := range []string{"admin ann mallory", "admin ann"} {
		_, err := w.reconcile()
		w.must(err)
		if got := w.bindingText(); got != want {
			t.Errorf("binding %q, want %q", got, want)
		}
	}
}

// A restricted binding keeps only subjects that equal an admin in each field.
func TestRestrictComparesWholeSubjects(t *testing.T) {
	x := tenant("a", everyKindOfAdmin, owning("a-dev"))
	for name, other := range map[string]rbacv1.Subject{
		"namespace": {Kind: rbacv1.ServiceAccountKind, Name: "ci", Namespace: "elsewhere"},
		"name":      {Kind: rbacv1.ServiceAccountKind, Name: "other", Namespace: "build"},
		"kind":      {Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "ann"},
		"API group": {Kind: rbacv1.UserKind, APIGroup: "example.com", Name: "ann"},
	} {
		for at, subjectsOf := range map[string][]rbacv1.Subject{
			"first": append([]rbacv1.Subject{other}, subjects(x)...),
			"last":  append(subjects(x), other),
			// The cache shows only the first ones, which are all of an admin.
			"beyond the cached": append(slices.Repeat(subjects(x), v1beta1.MaxAdmins), other),
		} {
			b, ns := binding("a-dev", x), namespace("a-dev", ownedBy(x))
			b.Subjects = subjectsOf
			w := newWorld(t, x, ns, b)
			w.cache = store(t, x.DeepCopy(), ns, slim(t, b.DeepCopy()))
			w.r.Options.AdminClusterRole = "missing"
			_, err := w.reconcile()
			w.must(err)
			got := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)
			if got == nil || !slices.Equal(got.Subjects, subjects(x)) {
				t.Errorf("another %s, %s: %v, want only the admins", name, at, got)
			}
		}
	}
}

// A binding under the reserved name is the Tenant's, whatever it claims. Only the claim of another Tenant
// counts that the API server has, and whose spec or status names the namespace.
func TestOwnsBinding(t *testing.T) {
	a, without := tenant("a", owning("a-dev")), tenant("b")
	still := tenant("b", owning("a-dev"))
	anew := tenant("b", prefix("a-"), func(t *v1beta1.Tenant) { t.UID = "uid-anew" })
	as := func(*rbacv1.RoleBinding) {}
	uncontrolled := func(b *rbacv1.RoleBinding) { b.OwnerReferences = nil }
	unmarked := func(b *rbacv1.RoleBinding) { b.Annotations = nil }
	unclaimed := func(b *rbacv1.RoleBinding) { unmarked(b); uncontrolled(b) }
	ours := func(b *rbacv1.RoleBinding) { *b = *binding("a-dev", a) }
	for name, tc := range map[string]struct {
		cached, live *v1beta1.Tenant
		claim        func(*rbacv1.RoleBinding) // changes one of the Tenant b
		theirs       bool
	}{
		"a Tenant that lists the namespace":      {sharing, sharing, as, true},
		"its mark alone":                         {sharing, sharing, uncontrolled, true},
		"its reference alone":                    {sharing, sharing, unmarked, true},
		"one that has it and no longer lists it": {still, still, as, true},
		"a Tenant without a part in it":          {without, without, as, false},
		"one that has dropped the name since":    {sharing, without, as, false},
		"a deleted one":                          {sharing, nil, as, false},
		"a recreated one":                        {sharing, anew, as, false},
		"one that never was":                     {nil, nil, as, false},
		"one that the cache does not show yet":   {nil, sharing, as, false},
		"no Tenant":                              {sharing, sharing, unclaimed, false},
		"the Tenant itself":                      {sharing, sharing, ours, false},
	} {
		claimed := binding("a-dev", sharing)
		tc.claim(claimed)
		with := func(other *v1beta1.Tenant) []client.Object {
			objects := []client.Object{a, namespace("a-dev", ownedBy(a)), claimed}
			if other != nil {
				objects = append(objects, other)
			}
			return objects
		}
		w := newWorld(t, with(tc.live)...)
		w.cache = store(t, with(tc.cached)...)
		o, err := w.r.observe(t.Context(), a)
		w.must(err)
		if got := ownsBinding(a, claimed, o.otherTenants["a-dev"]); got == tc.theirs {
			t.Errorf("claimed by %s: the Tenant owns the binding: %t", name, got)
		}
	}
}

// Namespaces that only claim the Tenant cost a bounded number of requests, and those with an owner
// reference come first. A failure there does not decide the status.
func TestForeignNamespacesAreBounded(t *testing.T) {
	x := tenant("a", owning("a-dev"))
	objects := []client.Object{x, namespace("a-dev", ownedBy(x)), binding("a-dev", x, "ann", "mallory"),
		namespace("victim", plant)}
	for i := range 5 * maxForeign {
		objects = append(objects, namespace(fmt.Sprintf("claims-%03d", i), ownedBy(x), unowned))
	}
	w := newWorld(t, objects...)
	w.deny = refuse("patch as leasehold Namespace victim", errors.New("boom"))
	if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), "disowning namespace victim: boom") {
		t.Errorf("reconcile() = %v, want the failure at the namespace with the reference", err)
	}
	if n := strings.Count(w.last, "live get Namespace "); n != maxForeign || w.bindingText() != "admin ann" ||
		w.ready().Status != metav1.ConditionTrue {
		t.Errorf("%d foreign namespaces read, binding %q, Ready %s", n, w.bindingText(), w.ready().Status)
	}
}
