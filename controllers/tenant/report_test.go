// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

func ended(namespaces ...state) *result {
	return &result{states: namespaces}
}

// Golden reconciles have the verdicts on each single failure.
func TestVerdict(t *testing.T) {
	failing := func(reason, detail string) *result {
		return ended(state{name: "a-dev", uid: "d", reason: v1beta1.ReasonReconciled}, state{name: "a-prod", reason: reason, detail: detail})
	}
	long := strings.Repeat("x", 1000)
	as, terminating, tooLong := observed(tenant("a")), observed(tenant("a", deleted)), observed(tenant("a"))
	tooLong.invalid = field.ErrorList{field.Invalid(field.NewPath("spec"), long, "no")}
	for name, tc := range map[string]struct {
		o                *observation
		res              *result
		reason, message  string
		ready, isStalled bool
	}{
		"one was let go": {as, failing("", ""), v1beta1.ReasonReconciled, "reconciled namespace a-dev", true, false},
		"deleting, refused": {terminating, failing(v1beta1.ReasonRBACForbidden, "no"),
			v1beta1.ReasonRBACForbidden, "no", false, true},
		"last rights": {terminating, ended(), v1beta1.ReasonDeleting, "removing the last permissions of the admins",
			false, false},
		"a refusal outside any namespace": {as, &result{Errors: reconciler.Errors{Failed: []error{notHeld(), errors.New("boom")}}},
			v1beta1.ReasonRBACForbidden, notHeld().Error(), false, true},
		"two failures": {as, ended(state{name: "x", reason: v1beta1.ReasonReconcileFailed, detail: "boom"},
			state{name: "y", reason: v1beta1.ReasonReconcileFailed, detail: "bang"}), v1beta1.ReasonReconcileFailed,
			"boom; bang", false, false},
		"a long failure": {as, failing(v1beta1.ReasonReconcileFailed, long), v1beta1.ReasonReconcileFailed,
			long[:900] + " ...", false, false},
		"a long failure outside any namespace": {as,
			&result{Errors: reconciler.Errors{Failed: []error{errors.New(long)}}},
			v1beta1.ReasonReconcileFailed, long[:900] + " ...", false, false},
		"a long name": {tooLong, ended(), v1beta1.ReasonInvalidSpec,
			tooLong.invalid.ToAggregate().Error()[:900] + " ...", false, true},
	} {
		list := summarize(tc.o, tc.res, epoch).Conditions
		ready := reporting.FindCondition(list, v1beta1.ConditionReady)
		stalled := reporting.FindCondition(list, v1beta1.ConditionStalled)
		if ready.Reason != tc.reason || ready.Message != tc.message || (ready.Status == metav1.ConditionTrue) != tc.ready ||
			(stalled.Status == metav1.ConditionTrue) != tc.isStalled || tc.isStalled && stalled.Message != ready.Message {
			t.Errorf("%s: Ready %+v and Stalled %+v, want %+v", name, ready, stalled, tc)
		}
	}
}

// Of two reasons the status reports the first of the table, also of a Tenant that is being deleted if only a
// person can help.
func TestReasonPrecedence(t *testing.T) {
	order := []string{v1beta1.ReasonNamespaceConflict, v1beta1.ReasonChildConflict, v1beta1.ReasonRBACForbidden,
		v1beta1.ReasonAdmissionDenied, v1beta1.ReasonQuotaExceeded, v1beta1.ReasonReconcileFailed,
		v1beta1.ReasonNamespaceTerminating, v1beta1.ReasonPending}
	if len(failureReasons) != len(order) {
		t.Fatalf("%d failure reasons, and %d are tested", len(failureReasons), len(order))
	}
	for _, o := range []*observation{observed(tenant("a")), observed(tenant("a", deleted))} {
		for i, first := range order {
			for j, second := range append(order, v1beta1.ReasonReconciled) {
				want, detail, stalled := order[min(i, j)], "of-x", min(i, j) < 3
				if j < i {
					detail = "of-y"
				}
				if o.deleting() && !stalled {
					want = v1beta1.ReasonDeleting
				}
				status := summarize(o, ended(
					state{name: "x", reason: first, detail: "of-x"}, state{name: "y", reason: second, detail: "of-y"}), epoch)
				ready := reporting.FindCondition(status.Conditions, v1beta1.ConditionReady)
				if ready.Reason != want || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, detail) ||
					meta.IsStatusConditionTrue(status.Conditions, v1beta1.ConditionStalled) != stalled || len(status.Namespaces) != 2 {
					t.Errorf("%s and %s, deleting %t: %+v, want %s, and stalled %t", first, second, o.deleting(), status, want, stalled)
				}
			}
		}
	}
}

// A namespace of a predecessor can be handed over. TestOwnsTruthTable has the effect of the command.
func TestHandoverIsAdvised(t *testing.T) {
	a := tenant("a")
	const command = "kubectl annotate namespace a-dev --overwrite leasehold.dev/tenant-uid=uid-a"
	for name, tc := range map[string]struct {
		ns     *corev1.Namespace
		advice bool
	}{
		"a stranger's":                          {namespace("a-dev"), false},
		"a predecessor's":                       {namespace("a-dev", ownedBy(restored), unowned), true},
		"a predecessor's, with owner reference": {namespace("a-dev", ownedBy(restored)), true},
		"a predecessor's, controlled by another": {namespace("a-dev", ownedBy(restored),
			func(ns *corev1.Namespace) { ns.OwnerReferences = stranger() }), false},
		"another Tenant's": {namespace("a-dev", ownedBy(tenant("b"))), false},
	} {
		if got := handoverAdvice(a, tc.ns); strings.HasSuffix(got, command) != tc.advice || (got != "") != tc.advice {
			t.Errorf("%s: %q, want the command: %t", name, got, tc.advice)
		}
	}
}

// Events report news: a failure with a new reason or message. Progress causes no event.
func TestTransitions(t *testing.T) {
	status := func(ready metav1.ConditionStatus, reason, message string) v1beta1.TenantStatus {
		return tenant("a", having(v1beta1.ConditionReady, ready, reason, message)).Status
	}
	none := v1beta1.TenantStatus{}
	ok := status(metav1.ConditionTrue, v1beta1.ReasonReconciled, "fine")
	okNext := *ok.DeepCopy()
	okNext.Conditions[0].ObservedGeneration = 2
	failed := status(metav1.ConditionFalse, v1beta1.ReasonReconcileFailed, "boom")
	otherMessage := status(metav1.ConditionFalse, v1beta1.ReasonReconcileFailed, "bang")
	otherReason := status(metav1.ConditionFalse, v1beta1.ReasonInvalidSpec, "boom")
	const updated, failure = "Normal Updated the Tenant was updated", "Warning Failed failed to reconcile: "
	type row struct {
		before, after v1beta1.TenantStatus
		wrote         bool
		want          []string // how the events begin
	}
	table := map[string]row{
		"the first Ready":                {none, ok, true, []string{updated}},
		"Ready again, nothing done":      {ok, ok, false, nil},
		"Ready, and drift was corrected": {ok, ok, true, []string{updated}},
		"Ready for a new generation":     {ok, okNext, false, []string{updated}},
		"a failure":                      {ok, failed, false, []string{failure + "boom"}},
		"the same failure again":         {failed, failed, true, nil},
		"another message":                {failed, otherMessage, false, []string{failure + "bang"}},
		"another reason":                 {failed, otherReason, false, []string{failure + "boom"}},
		"recovery":                       {failed, ok, false, []string{updated}},
	}
	for _, reason := range []string{v1beta1.ReasonProgressing, v1beta1.ReasonPending,
		v1beta1.ReasonNamespaceTerminating, v1beta1.ReasonDeleting} {
		table["progress: "+reason] = row{failed, status(metav1.ConditionFalse, reason, "creating"), true, nil}
	}
	for name, tc := range table {
		var got []string
		for _, e := range transitions(tc.before, tc.after, tc.wrote) {
			got = append(got, fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Message))
		}
		if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
			t.Errorf("%s: events %q, want %q", name, got, tc.want)
		}
	}
}

// A message names at most five namespaces.
func TestNamespacesText(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for n, want := range map[int]string{1: "namespace a", 5: "namespaces a, b, c, d, e",
		7: "7 namespaces (a, b, c, d, e and 2 more)"} {
		if got := namespacesText(names[:n]); got != want {
			t.Errorf("namespacesText of %d = %q, want %q", n, got, want)
		}
	}
}

// Each condition of the namespace controller that is True states what a namespace waits for. Finalizers
// of the namespace itself are in no condition.
func TestRemaining(t *testing.T) {
	ns := namespace("a-dev", terminating)
	ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	ns.Status.Conditions = []corev1.NamespaceCondition{{Status: "False", Message: "none"}}
	if got := remaining(ns); got != "" {
		t.Errorf("waits for %q, want nothing", got)
	}
	heldBack(ns)
	ns.Spec.Finalizers = append(ns.Spec.Finalizers, "example.com/spec")
	ns.Status.Conditions = append(ns.Status.Conditions, corev1.NamespaceCondition{Status: "True", Message: "content"},
		corev1.NamespaceCondition{Status: "True", Message: "discovery"}, corev1.NamespaceCondition{Status: "Unknown"})
	const want = "content; discovery; the namespace itself has finalizers: example.com/held, example.com/spec"
	if got := remaining(ns); got != want {
		t.Errorf("waits for %q, want %q", got, want)
	}
}
