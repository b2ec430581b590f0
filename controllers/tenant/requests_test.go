// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

func pausing(value string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) { t.Annotations = map[string]string{v1beta1.AnnotationPaused: value} }
}

// A replica whose cached Tenant is old gives a removed admin no rights back, and reports no drift, whether that Tenant
// was reconciled or not. It writes nothing for a Tenant that was paused meanwhile.
func TestOldTenantCorrectsNothing(t *testing.T) {
	withMallory := func(p *provisioned) { admins("ann", "mallory")(p.tenant) }
	removed := func(x *v1beta1.Tenant) { admins("ann")(x); next(x) }
	for name, tc := range map[string]struct {
		was       func(*provisioned)
		meanwhile func(*v1beta1.Tenant)
	}{
		"reconciled": {withMallory, removed},
		"pending": {func(p *provisioned) {
			withMallory(p)
			p.tenant.Status.Namespaces[0].Reason = v1beta1.ReasonPending
		}, removed},
		"failed": {func(p *provisioned) {
			withMallory(p)
			p.tenant.Status.Conditions[0].Status = metav1.ConditionFalse
		}, removed},
		"paused":                            {withMallory, pausing("true")},
		"paused, Retain is not applied":     {func(p *provisioned) { retaining(p.tenant) }, pausing("true")},
		"paused, the readers' role is gone": {func(p *provisioned) { p.reader = nil }, pausing("true")},
		"paused, the readers have another role": {func(p *provisioned) {
			p.readerBinding.RoleRef = clusterRole("admin")
		}, pausing("true")},
	} {
		w := newWorld(t, provision(tc.was)...)
		w.unseen = func(w *world) {
			x := find[v1beta1.Tenant](w, "", "a")
			tc.meanwhile(x)
			w.must(w.live.Update(t.Context(), x))
		}
		w.settle()
		if lines := strings.Join(w.Lines, "\n"); strings.Contains(lines, "mallory") ||
			strings.Contains(lines, "delete ") || w.corrected() != "" ||
			strings.HasPrefix(name, "paused") && strings.Contains(lines, " as leasehold ") {
			t.Errorf("%s: it corrected what was right:\n%s", name, lines)
		}
	}
}

// A paused Tenant gets the condition, once, and nothing else: no finalizer, no child, no deletion, and no other
// change of its status. A resumed one loses the condition.
func TestPausedTenant(t *testing.T) {
	paused := pausing("True")
	for name, w := range map[string]*world{
		"new":     newWorld(t, tenant("a", fresh, paused)),
		"drifted": newWorld(t, provision(unbound, paused)...),
		"deleted": newWorld(t, provision(nil, paused, deleted)...),
		"changed, with a request": newWorld(t, provision(nil, next, func(t *v1beta1.Tenant) {
			t.Annotations = map[string]string{v1beta1.AnnotationPaused: "true", v1beta1.AnnotationRequestedAt: "1"}
		})...),
	} {
		before := w.status()
		w.settle()
		lines := strings.Join(w.Lines, "\n")
		if writes := strings.Count(lines, " as leasehold ") + strings.Count(lines, "delete "); writes > 0 ||
			w.requests["merge-patch+json of status Tenant a"] != 1 {
			t.Errorf("%s: it is written to:\n%s", name, lines)
		}
		after := w.status()
		got := reporting.FindCondition(after.Conditions, v1beta1.ConditionPaused)
		if got.Status != metav1.ConditionTrue || got.Reason != v1beta1.ReasonPaused ||
			got.ObservedGeneration != find[v1beta1.Tenant](w, "", "a").Generation ||
			!strings.Contains(got.Message, v1beta1.AnnotationPaused) {
			t.Errorf("%s: Paused %+v", name, got)
		}
		meta.RemoveStatusCondition(&after.Conditions, v1beta1.ConditionPaused)
		if diff := cmp.Diff(before, after, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: the rest of the status (-before +paused):\n%s", name, diff)
		}
		resumed := find[v1beta1.Tenant](w, "", "a")
		resumed.Annotations = map[string]string{v1beta1.AnnotationPaused: "false"}
		w.must(w.live.Update(t.Context(), resumed))
		w.settle()
		if got := reporting.FindCondition(w.status().Conditions, v1beta1.ConditionPaused); got.Type != "" {
			t.Errorf("%s: Paused %+v after it was resumed", name, got)
		}
	}
}

// The status repeats the value of the request that was handled last, also of the second one.
func TestRequestedReconcile(t *testing.T) {
	w := newWorld(t, provision(nil)...)
	for _, value := range []string{"1", "2", "2", strings.Repeat("é", 200)} {
		requested := find[v1beta1.Tenant](w, "", "a")
		requested.Annotations = map[string]string{v1beta1.AnnotationRequestedAt: value}
		w.must(w.live.Update(t.Context(), requested))
		w.settle()
		if got, want := w.status().LastHandledReconcileAt, reconciler.RequestedAt(requested); got != want {
			t.Errorf("the request handled last is %q, want %q", got, want)
		}
	}
}

// An error that prevents a reconcile is in Ready, also of a new Tenant, and in the gauge. The former status would claim
// what was not checked.
func TestErrorThatPreventsAReconcile(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		w       *world
		request string
		err     error
		reason  string
	}{
		"a new Tenant, a policy refuses the finalizer": {newWorld(t, tenant("a", fresh)), "patch as leasehold Tenant a",
			forbidden("tenants", `violates "x"`), v1beta1.ReasonAdmissionDenied},
		"a new Tenant, a read fails": {newWorld(t, tenant("a", fresh)), "cached get Namespace a-dev", boom,
			v1beta1.ReasonReconcileFailed},
		"a Ready Tenant, a right is lost": {newWorld(t, provision(nil, owning("a-old"))...), "live get Namespace a-old",
			forbidden("namespaces", `User "op" cannot get resource "namespaces"`), v1beta1.ReasonRBACForbidden},
		"a declared Tenant, a read fails": {newWorld(t, tenant("a", declaring("a-dev"))), "live get Tenant a", boom,
			v1beta1.ReasonReconcileFailed},
	} {
		tc.w.deny = refuse(tc.request, tc.err)
		tc.w.r.metrics.ready.WithLabelValues("a").Set(1)
		if _, err := tc.w.reconcile(); !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, want %v", name, err, tc.err)
		}
		ready := tc.w.ready()
		stalled := reporting.FindCondition(tc.w.status().Conditions, v1beta1.ConditionStalled).Status == metav1.ConditionTrue
		if ready.Status != metav1.ConditionFalse || ready.Reason != tc.reason ||
			!strings.Contains(ready.Message, tc.err.Error()) ||
			stalled != (tc.reason == v1beta1.ReasonRBACForbidden) || !strings.Contains(tc.w.last, "event Warning Failed") {
			t.Errorf("%s: Ready %s %s (%s), stalled %t", name, ready.Status, ready.Reason, ready.Message, stalled)
		}
		if observed := tc.w.status().ObservedGeneration; observed != 1 ||
			testutil.ToFloat64(tc.w.r.metrics.ready.WithLabelValues("a")) != 0 {
			t.Errorf("%s: the status is of generation %d, want 1, and the gauge 0", name, observed)
		}
	}
}

// Only time helps with a namespace of others that is being deleted, as of a Tenant that was deleted just
// before. So the Tenant is not Stalled, and the message proposes nothing. The gauge counts only owned namespaces.
func TestTerminatingNamespaceOfOthersIsWaitedFor(t *testing.T) {
	held := namespace("a-dev", ownedBy(restored), terminating)
	heldBack(held)
	w := newWorld(t, tenant("a"), held)
	w.settle()
	if got := w.ready(); got.Reason != v1beta1.ReasonNamespaceTerminating ||
		!strings.HasPrefix(got.Message, "waiting for the deletion of namespace a-dev: ") ||
		strings.Contains(got.Message, "choose") ||
		reporting.FindCondition(w.status().Conditions, v1beta1.ConditionStalled).Type != "" {
		t.Errorf("Ready %s: %s", got.Reason, got.Message)
	}
	if got := testutil.ToFloat64(w.r.metrics.namespaces.WithLabelValues("a")); got != 0 {
		t.Errorf("it owns %v namespaces, want none", got)
	}
}

// The cache may show a terminating namespace before it got the annotation. The Tenant waits for it all the same.
func TestTerminatingNamespaceIsReadLive(t *testing.T) {
	held := namespace("a-old", terminating)
	heldBack(held)
	w := newWorld(t, tenant("a", deleted, listing("a-old", v1beta1.ReasonReconciled)), held)
	w.edit("a-old", ownedBy(tenant("a")))
	_, _ = w.reconcile() // retried
	if got := w.status().Namespaces; len(got) != 1 || got[0].Reason != v1beta1.ReasonNamespaceTerminating {
		t.Errorf("the Tenant waits for %+v, want a-old", got)
	}
}

// Under Retain no namespace has an owner reference to its Tenant: in a foreground deletion the garbage
// collector would delete the namespace, without waiting for the Tenant's finalizer.
func TestRetainRemovesTheOwnerReference(t *testing.T) {
	w := newWorld(t, provision(func(p *provisioned) { ownedBy(tenant("a"))(p.namespaces[0]) }, retaining)...)
	w.settle()
	if ns := find[corev1.Namespace](w, "", "a-dev"); len(ns.OwnerReferences) > 0 || annotatedUID(ns) != "uid-a" {
		t.Errorf("the namespace has the owners %+v and the UID %q, want no owner", ns.OwnerReferences, annotatedUID(ns))
	}
}

// A Tenant whose namespace is not changed by a write, since an admission webhook removes the operator's
// labels, is not Ready, and reports no correction.
func TestIneffectiveWriteIsReported(t *testing.T) {
	w := newWorld(t, provision(func(p *provisioned) { p.namespaces[0].Labels, p.bindings[0] = nil, nil })...)
	w.ineffective = true
	_, _ = w.reconcile() // retried
	if got := w.ready(); got.Status != metav1.ConditionFalse || got.Reason != v1beta1.ReasonAdmissionDenied ||
		!strings.Contains(got.Message, "removes or changes labels") || w.bindingText() != "admin ann" ||
		strings.Contains(w.corrected(), "corrected namespace") {
		t.Errorf("Ready %s %s: %s, with the binding %q; corrected: %s", got.Status, got.Reason, got.Message,
			w.bindingText(), w.corrected())
	}
}
