package tenant

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// eventsOf returns the number of events with this reason since the last call.
func (w *world) eventsOf(reason string) int {
	n := 0
	for len(w.recorder.Events) > 0 {
		if strings.Contains(<-w.recorder.Events, " "+reason+" ") {
			n++
		}
	}
	return n
}

// A failure is an event when its reason or its message is new. Progress never is.
func TestFailureIsReportedOnce(t *testing.T) {
	reasons := []string{
		v1beta1.ReasonNamespaceConflict, v1beta1.ReasonReconcileFailed, v1beta1.ReasonInvalidSpec,
		v1beta1.ReasonProgressing, v1beta1.ReasonPending, v1beta1.ReasonNamespaceTerminating, v1beta1.ReasonDeleting,
	}
	progress := reasons[3:]
	status := func(reason, message string) v1beta1.TenantStatus {
		return v1beta1.TenantStatus{Conditions: []metav1.Condition{
			{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message,
				ObservedGeneration: 1}}}
	}
	for _, was := range reasons {
		for _, is := range reasons {
			for _, message := range []string{"one", "another"} {
				want := 0
				if !slices.Contains(progress, is) && (was != is || message != "one") {
					want = 1
				}
				got := transitions(status(was, "one"), status(is, message), false)
				if len(got) != want || want == 1 && got[0].Reason != v1beta1.EventFailed {
					t.Errorf("from %s to %s with message %q: events %+v, want %d", was, is, message, got, want)
				}
			}
		}
	}
}

// remaining returns the message of the first deletion condition that is True.
func TestRemaining(t *testing.T) {
	condition := func(kind corev1.NamespaceConditionType, status corev1.ConditionStatus) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: kind, Status: status, Message: string(kind)}
	}
	waited := []corev1.NamespaceConditionType{
		corev1.NamespaceFinalizersRemaining, corev1.NamespaceDeletionContentFailure, corev1.NamespaceContentRemaining,
	}
	for _, kind := range append(waited, corev1.NamespaceDeletionDiscoveryFailure,
		corev1.NamespaceDeletionGVParsingFailure) {
		for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse,
			corev1.ConditionUnknown} {
			want := ""
			for _, w := range waited {
				if kind == w && status == corev1.ConditionTrue {
					want = string(kind)
				}
			}
			// A condition that is not True precedes each.
			ns := namespace("a-dev", terminating, func(ns *corev1.Namespace) {
				ns.Status.Conditions = []corev1.NamespaceCondition{
					condition(corev1.NamespaceContentRemaining, corev1.ConditionFalse), condition(kind, status)}
			})
			if got := remaining(ns); got != want {
				t.Errorf("%s is %s: waits for %q, want %q", kind, status, got, want)
			}
		}
	}
}

// A corrected binding is reported as repaired only if it was correct for this generation.
func TestRepairIsReportedForCorrectBindingsOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*v1beta1.Tenant)
		want   int
	}{
		"right for this spec":       {func(*v1beta1.Tenant) {}, 1},
		"right for the spec before": {func(t *v1beta1.Tenant) { t.Generation = 2 }, 0},
		"never right": {func(t *v1beta1.Tenant) { t.Status.Namespaces[0].Reason = v1beta1.ReasonPending },
			0},
		"its namespace was not listed": {func(t *v1beta1.Tenant) { t.Status.Namespaces = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x := tenant("a", owning("a-dev"), func(t *v1beta1.Tenant) { t.Status.ObservedGeneration = 1 }, tc.before)
			w := newWorld(t, x, namespace("a-dev", ownedBy(x)), bound(x, "mallory"))
			w.must(w.reconcile())
			if got := w.bindingText(); got != "admin ann" {
				t.Fatalf("binding %q, want that of ann", got)
			}
			if got := w.eventsOf(v1beta1.EventAdminBindingRepaired); got != tc.want {
				t.Errorf("%d events, want %d", got, tc.want)
			}
		})
	}
}

// An admin may add a finalizer to the binding right before its deletion. The namespace is
// released only after the binding, which still grants rights, is deleted. The forged
// binding has a wrong owner kind, so no index finds it and only the release does.
func TestReleaseWaitsForBindingWithFinalizer(t *testing.T) {
	x := tenant("a", retaining, deleted, owning("a-dev"))
	forged := binding("a-dev", x)
	forged.Labels, forged.Annotations, forged.OwnerReferences[0].Kind = nil, nil, "ConfigMap"
	for name, b := range map[string]*rbacv1.RoleBinding{"marked": bound(x, "mallory"), "forged": forged} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, x.DeepCopy(), namespace("a-dev", ownedBy(x)), b)
			held := 0
			w.deny = func(verb string, o client.Object) error {
				live := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)
				if _, isBinding := o.(*rbacv1.RoleBinding); !isBinding || verb != "delete" || live == nil || held > 0 {
					return nil
				}
				held++
				live.Finalizers = []string{"tenant.example.com/keep"}
				return w.live.Update(t.Context(), live)
			}
			for step := 0; find[v1beta1.Tenant](w, "", "a") != nil; step++ {
				if step == 10 {
					t.Fatalf("the Tenant is not released: %+v", w.ready())
				}
				_ = w.reconcile() // a conflict is reconciled again
				w.sync()
				isBound := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName) != nil
				if isMarked := claimsOf(find[corev1.Namespace](w, "", "a-dev")).annotationUID == x.UID; isBound && !isMarked {
					t.Fatal("the namespace is released and the binding still grants rights in it")
				}
			}
			if held != 1 {
				t.Errorf("the binding was held %d times, want once", held)
			}
		})
	}
}

// The release deletes the binding first. If the deletion
// fails, the namespace retains its ownership labels and its place in the status.
func TestReleaseWaitsForBinding(t *testing.T) {
	x := tenant("a", retaining, owning("a-dev"), naming("prod"))
	w := newWorld(t, x, namespace("a-dev", ownedBy(x)), binding("a-dev", x))
	w.deny = func(verb string, o client.Object) error {
		if verb == "delete" && o.GetName() == adminBindingName {
			return errors.New("boom")
		}
		return nil
	}
	if err := w.reconcile(); err == nil || !strings.Contains(err.Error(), "deleting role binding a-dev/leasehold:tenant-admin: boom") {
		t.Errorf("reconcile() = %v, want the failure", err)
	}
	if claimsOf(find[corev1.Namespace](w, "", "a-dev")).annotationUID != x.UID ||
		w.eventsOf(v1beta1.EventNamespaceRetained) != 0 {
		t.Error("the namespace is released and the binding still grants rights in it")
	}
	want := v1beta1.TenantNamespace{Name: "a-dev", UID: "uid-a-dev", Reason: v1beta1.ReasonReconcileFailed}
	if listed := find[v1beta1.Tenant](w, "", "a").Status.Namespaces; !slices.Contains(listed, want) {
		t.Errorf("status lists %+v, want %+v among them", listed, want)
	}
}

// The periodic reconcile is due one period after the last successful reconcile.
func TestOnlySuccessfulReconcilesCount(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse error
		want   bool
	}{
		"nothing fails": {nil, true},
		"a write fails": {errors.New("boom"), false},
		"a write meets Conflict": {apierrors.NewConflict(corev1.Resource("namespaces"), "a-dev", errors.New("changed")),
			false},
		"the fence denies": {denied(), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tenant("a"))
			w.deny = func(verb string, o client.Object) error {
				if _, isNamespace := o.(*corev1.Namespace); isNamespace && verb == "create" {
					return tc.refuse
				}
				return nil
			}
			_ = w.reconcile()
			if at, known := w.r.lastReconciled.Load("a"); known != tc.want || known && at != w.r.Clock.Now() {
				t.Errorf("last reconcile at %v recorded: %t, want %t", at, known, tc.want)
			}
		})
	}
}

// A message names at most five namespaces.
func TestNamespacesText(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for n, want := range []string{
		"namespaces ", "namespace a", "namespaces a, b", "namespaces a, b, c", "namespaces a, b, c, d",
		"namespaces a, b, c, d, e",
		"6 namespaces (a, b, c, d, e and 1 more)", "7 namespaces (a, b, c, d, e and 2 more)",
	} {
		if got := namespacesText(names[:n]); got != want {
			t.Errorf("namespacesText of %d = %q, want %q", n, got, want)
		}
	}
}

// The operator writes nothing for a terminating Tenant without its finalizer.
func TestTerminatingTenantWithoutFinalizerIsIgnored(t *testing.T) {
	w := newWorld(t, tenant("a", func(t *v1beta1.Tenant) {
		t.DeletionTimestamp, t.Finalizers = new(metav1.Now()), []string{"example.com/another"}
	}))
	w.deny = func(verb string, o client.Object) error {
		t.Errorf("%s %T %s", verb, o, o.GetName())
		return nil
	}
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
}
