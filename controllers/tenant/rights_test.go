// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// refuseWrites fails each change of a binding that exists, and its creation if creations is true.
func refuseWrites(creations bool, err error) refusal {
	return func(q reconcilertest.Request) error {
		if strings.Contains(q.Name, " RoleBinding ") &&
			(q.Verb == "patch" || q.Verb == "apply" && (creations || q.Object.GetResourceVersion() != "1")) {
			return err
		}
		return nil
	}
}

// refuseAll fails each creation and change of a binding, also a dry run.
func refuseAll(err error) refusal {
	return func(q reconcilertest.Request) error {
		if strings.Contains(q.Name, " RoleBinding ") && slices.Contains([]string{"create", "patch", "apply"}, q.Verb) {
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
	busy := apierrors.NewServerTimeout(schema.GroupResource{Resource: "rolebindings"}, "patch", 1) // its code is 500
	outage := apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": connection refused`))
	// Without a reason of its own, a policy denies with the code of invalid content.
	byPolicy := apierrors.NewInvalid(schema.GroupKind{Kind: "RoleBinding"}, adminBindingName, nil)
	byPolicy.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Message: "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"}}

	overQuota := apierrors.NewForbidden(schema.GroupResource{Resource: "rolebindings"}, "",
		errors.New("exceeded quota: small, requested: count/rolebindings=1"))
	noRight := apierrors.NewForbidden(schema.GroupResource{Resource: "rolebindings"}, "",
		errors.New(`User "op" cannot create resource "rolebindings" in API group "rbac.authorization.k8s.io"`))
	const creation = "create as leasehold RoleBinding "

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
		"another role":             {"ann bob", toView, nil, nil, "view ann bob", ready},
		"refused":                  {"ann bob", toView, refuseRole("view"), nil, "admin ann bob", forbidden},
		"refused, one was removed": {"ann bob mallory", toView, refuseRole("view"), nil, "admin ann bob", forbidden},
		"refused, one is new":      {"ann", toView, refuseRole("view"), nil, "admin ann", forbidden},
		"over quota, one was removed": {"ann mallory", toView, refuse(creation, overQuota), nil, "admin ann",
			v1beta1.ReasonQuotaExceeded},
		"RBAC, one was removed":    {"ann mallory", toView, refuse(creation, noRight), nil, "admin ann", forbidden},
		"policy, one was removed":  {"ann mallory", toView, refuse(creation, byPolicy), nil, "admin ann", denied},
		"the same, refused":        {"ann mallory", nil, refuseRole("admin"), nil, "", forbidden},
		"the same, unchanged":      {"ann bob", nil, refuseRole("admin"), nil, "admin ann bob", ready},
		"missing":                  {"ann bob", toNone, nil, nil, "admin ann bob", missing},
		"missing, one was removed": {"ann mallory", toNone, nil, nil, "admin ann", missing},

		"too large":       {"ann mallory", nil, refuseWrites(false, large), nil, "admin ann bob", ready},
		"invalid":         {"ann mallory", nil, refuseWrites(false, invalid), nil, "admin ann bob", ready},
		"a policy":        {"ann mallory", nil, refuseWrites(false, byPolicy), nil, "admin ann mallory", denied},
		"another failure": {"ann mallory", nil, refuseWrites(false, errors.New("boom")), nil, "admin ann mallory", failed},
		"outage":          {"ann mallory", nil, refuseAll(outage), nil, "admin ann mallory", failed},
		"overload":        {"ann mallory", nil, refuseWrites(false, busy), nil, "admin ann mallory", failed},
		"contested":       {"ann mallory", nil, refuseWrites(false, changed()), nil, "admin ann bob", ready},
		"contested twice": {"ann mallory", nil, refuseWrites(true, changed()), nil, "", ""},

		"terminating":                  {"ann bob", nil, nil, terminates(), "admin ann bob", ending},
		"terminating, one was removed": {"ann mallory", nil, nil, terminates(), "admin ann", ending},
		"terminating, held":            {"ann bob", nil, nil, terminates(held), "", ending},

		"a refused name":         {"ann mallory", refusing, nil, nil, "admin ann", invalidSpec},
		"a refused name, theirs": {"", refusing, nil, theirs, "", invalidSpec},
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

// A removed admin loses access without a moment in which the others have none, if the API server fails once.
func TestFailureThatPassesLeavesTheBinding(t *testing.T) {
	x := tenant("a", admins("ann", "bob"), owning("a-dev"))
	etcd := apierrors.NewGenericServerResponse(500, "patch", schema.GroupResource{}, "", "etcdserver: leader changed", 0, true)
	ending := namespace("a-dev", ownedBy(x), terminating, func(ns *corev1.Namespace) { heldBack(ns) })
	for name, tc := range map[string]struct {
		ns      *corev1.Namespace
		failure error
		want    string
	}{
		"Conflict":              {namespace("a-dev", ownedBy(x)), changed(), "admin ann bob"},
		"etcd":                  {namespace("a-dev", ownedBy(x)), etcd, "admin ann bob"},
		"Conflict, terminating": {ending, changed(), "admin ann"},
		"etcd, terminating":     {ending, etcd, "admin ann"},
	} {
		t.Run(name, func(t *testing.T) {
			failure := tc.failure
			w := newWorld(t, x, sharing, tc.ns.DeepCopy(), binding("a-dev", x, "ann", "mallory"))
			w.deny = func(q reconcilertest.Request) error {
				err := refuseWrites(false, failure)(q)
				if err != nil {
					failure = nil
				}
				return err
			}
			_, err := w.reconcile()
			w.must(err)
			for request, n := range w.requests {
				if n > 0 && strings.HasPrefix(request, "delete ") {
					t.Errorf("%s, want only changes", request)
				}
			}
			if got := w.bindingText(); got != tc.want || failure != nil {
				t.Errorf("binding %q", got)
			}
		})
	}
}

// A binding with a subject that differs from each admin in one field grants rights to others.
func TestStayingComparesWholeSubjects(t *testing.T) {
	x, b := tenant("a", everyKindOfAdmin), &rbacv1.RoleBinding{}
	if b.Subjects = subjects(x)[1:]; len(staying(x, b)) != len(b.Subjects) {
		t.Error("a binding to some of the admins binds others")
	}
	for name, other := range map[string]rbacv1.Subject{
		"namespace": {Kind: rbacv1.ServiceAccountKind, Name: "ci", Namespace: "elsewhere"},
		"name":      {Kind: rbacv1.ServiceAccountKind, Name: "other", Namespace: "build"},
		"kind":      {Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "ann"},
		"API group": {Kind: rbacv1.UserKind, APIGroup: "example.com", Name: "ann"},
	} {
		first, last := append([]rbacv1.Subject{other}, subjects(x)...), append(subjects(x), other)
		for _, b.Subjects = range [][]rbacv1.Subject{first, last} {
			if len(staying(x, b)) != len(subjects(x)) {
				t.Errorf("another %s is no other among %v", name, b.Subjects)
			}
		}
	}
}

// A binding that differs since the operator's flag changed, or since the missing role exists, was changed by no other.
func TestOwnChangesAreNoRepairs(t *testing.T) {
	missing := func(p *provisioned) {
		p.tenant.Status.Conditions = nil
		having(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonAdminRoleNotFound, "missing")(p.tenant)
	}
	for name, tc := range map[string]struct {
		edit    func(*provisioned)
		binding bool
		role    string
	}{
		"another role":  {nil, true, "view"},
		"role is there": {missing, false, "admin"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(provision(tc.edit), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}})...)
			w.r.Options.AdminClusterRole = tc.role
			if !tc.binding {
				w.must(w.live.Delete(t.Context(), find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)))
				w.sync()
			}
			_, err := w.reconcile()
			w.must(err)
			if n := testutil.ToFloat64(w.r.metrics.repaired); n != 0 || w.ready().Reason != v1beta1.ReasonReconciled ||
				w.bindingText() != tc.role+" ann" {
				t.Errorf("%v repairs, Ready %s; binding %q", n, w.ready().Reason, w.bindingText())
			}
		})
	}
}

// A missing right to bind is in the status with its remedy, and without the rules of the role.
func TestMissingRightToBind(t *testing.T) {
	w := newWorld(t, tenant("a"))
	w.deny = refuseRole("admin")
	_, _ = w.reconcile() // retried
	got := w.ready()
	for _, text := range []string{"lacks the verb bind on ClusterRole admin", "config/rbac/manager_role.yaml",
		"--tenant-admin-cluster-role"} {
		if got.Reason != v1beta1.ReasonRBACForbidden || !strings.Contains(got.Message, text) ||
			strings.Contains(got.Message, "not currently held") {
			t.Errorf("Ready %s: %q, want %q in it", got.Reason, got.Message, text)
		}
	}
}

// Each repair of the binding is an event and counted, also the second one. Ready says what is true after it.
func TestRepairsAreReported(t *testing.T) {
	w := newWorld(t, provision(nil)...)
	w.settle()
	for n := range 3 {
		w.must(w.live.Delete(t.Context(), find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)))
		w.sync()
		_, err := w.reconcile()
		w.must(err)
		if got := testutil.ToFloat64(w.r.metrics.repaired); got != float64(n+1) || w.bindingText() != "admin ann" ||
			w.ready().Reason != v1beta1.ReasonReconciled || !strings.Contains(w.last, "event Warning AdminBindingRepaired") {
			t.Errorf("repair %d: counted %v, Ready %s with the binding %q:\n%s", n, got, w.ready().Reason, w.bindingText(), w.last)
		}
		w.sync()
		if _, err := w.reconcile(); err != nil || strings.Contains(w.last, "event ") ||
			testutil.ToFloat64(w.r.metrics.repaired) != float64(n+1) {
			t.Errorf("repair %d: %v, and without another change:\n%s", n, err, w.last)
		}
	}
}

// A repair is reported also after a read that failed: the failure has changed nothing in the namespace.
func TestRepairAfterAFailureIsReported(t *testing.T) {
	w := newWorld(t, provision(unbound)...)
	w.deny = refuse("cached get Namespace a-dev", errors.New("boom"))
	_, _ = w.reconcile() // retried
	w.deny = nil
	_, err := w.round()
	w.must(err)
	if n := testutil.ToFloat64(w.r.metrics.repaired); n != 1 || w.ready().Reason != v1beta1.ReasonReconciled {
		t.Errorf("%v repairs, Ready %s", n, w.ready().Reason)
	}
}

// A ClusterRoleBinding of another owner, under the name of the readers' binding, outlives the Tenant.
func TestDeletedTenantLeavesTheBindingOfOthers(t *testing.T) {
	w := newWorld(t, provision(func(p *provisioned) {
		p.readerBinding.ObjectMeta = metav1.ObjectMeta{Name: p.readerBinding.Name, UID: "uid-stranger"}
	}, deleted)...)
	w.settle()
	if b, x := find[rbacv1.ClusterRoleBinding](w, "", readerNamePrefix+"a"), find[v1beta1.Tenant](w, "", "a"); b == nil ||
		x != nil {
		t.Errorf("the binding is %+v, and the Tenant %+v", b, x)
	}
}

// A binding that is being deleted cannot be corrected. It is removed with its finalizers and created again, once.
func TestTerminatingBindingIsReplaced(t *testing.T) {
	w := newWorld(t, provision(func(p *provisioned) {
		heldBack(p.bindings[0])
		p.bindings[0].DeletionTimestamp = &metav1.Time{Time: epoch}
	})...)
	w.settle()
	b := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)
	if n := testutil.ToFloat64(w.r.metrics.repaired); n != 1 || b == nil || b.DeletionTimestamp != nil ||
		w.bindingText() != "admin ann" {
		t.Errorf("%v repairs, and the binding is %+v", n, b)
	}
}
