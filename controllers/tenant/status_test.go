package tenant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

func ended(outcomes ...outcome) *result {
	return &result{outcomes: outcomes, reader: outcome{reason: v1beta1.ReasonReconciled}}
}

func TestVerdict(t *testing.T) {
	a := tenant("a", naming("dev", "prod"))
	dev := outcome{name: "a-dev", uid: "d", reason: v1beta1.ReasonReconciled}
	with := func(reason, detail string) *result {
		return ended(dev, outcome{name: "a-prod", reason: reason, detail: detail})
	}
	noRole, long := observed(a), strings.Repeat("x", 1000)
	noRole.missingAdminRole = "admin"
	for reason, tc := range map[string]struct {
		o       *observation
		p       plan
		res     *result
		want    string // reason
		message string
		stalled bool
	}{
		"all well": {observed(a), plan{}, ended(dev), v1beta1.ReasonReconciled, "reconciled namespace a-dev", false},
		"one was let go": {observed(a), plan{}, ended(dev, outcome{name: "a-old"}), v1beta1.ReasonReconciled,
			"reconciled namespace a-dev", false},
		"conflict": {observed(a), plan{}, with(v1beta1.ReasonNamespaceConflict, ""), v1beta1.ReasonNamespaceConflict,
			"cannot create namespace a-prod", true},
		"forbidden": {observed(a), plan{}, with(v1beta1.ReasonRBACForbidden, "no"), v1beta1.ReasonRBACForbidden,
			"no", true},
		"failure": {observed(a), plan{}, with(v1beta1.ReasonReconcileFailed, "boom"), v1beta1.ReasonReconcileFailed,
			"boom", false},
		"terminating": {observed(a), plan{}, with(v1beta1.ReasonNamespaceTerminating, "pods remain"),
			v1beta1.ReasonNamespaceTerminating, "waiting for the deletion of namespace a-prod: pods remain", false},
		"deleting": {observed(a), plan{deleting: true}, with(v1beta1.ReasonNamespaceTerminating, ""),
			v1beta1.ReasonDeleting, "waiting for the deletion of namespace a-prod", false},
		"deleting, failing": {observed(a), plan{deleting: true}, with(v1beta1.ReasonReconcileFailed, "boom"),
			v1beta1.ReasonDeleting, "boom", false},
		"deleting, refused": {observed(a), plan{deleting: true}, with(v1beta1.ReasonRBACForbidden, "no"),
			v1beta1.ReasonRBACForbidden, "no", true},
		"last rights": {observed(a), plan{deleting: true}, ended(), v1beta1.ReasonDeleting,
			"removing the last rights of the admins", false},
		"reader conflict": {observed(a), plan{}, &result{outcomes: []outcome{dev},
			reader: outcome{reason: v1beta1.ReasonChildConflict, detail: "cluster role x exists"}},
			v1beta1.ReasonChildConflict, "cluster role x exists", true},
		"a failure outside any namespace": {observed(a), plan{},
			&result{outcomes: []outcome{dev}, errs: []error{errors.New("deleting role binding x: boom")}},
			v1beta1.ReasonReconcileFailed, "deleting role binding x: boom", false},
		"a refusal outside any namespace": {observed(a), plan{},
			&result{outcomes: []outcome{dev}, errs: []error{notHeld(binding("a-dev", a)), errors.New("boom")}},
			v1beta1.ReasonRBACForbidden, `rolebindings.rbac.authorization.k8s.io "leasehold:tenant-admin" is forbidden: user "op"`, true},
		"two failures": {observed(a), plan{}, ended(outcome{name: "x", reason: v1beta1.ReasonReconcileFailed, detail: "boom"},
			outcome{name: "y", reason: v1beta1.ReasonReconcileFailed, detail: "bang"}), v1beta1.ReasonReconcileFailed,
			"boom; bang", false},
		"a failure that has much to say": {observed(a), plan{}, with(v1beta1.ReasonReconcileFailed, long),
			v1beta1.ReasonReconcileFailed, long[:900] + " ...", false},
		"a failure outside any namespace that has much to say": {observed(a), plan{},
			&result{errs: []error{errors.New(long)}},
			v1beta1.ReasonReconcileFailed, long[:900] + " ...", false},
		"no admin role": {noRole, plan{}, ended(dev), v1beta1.ReasonAdminRoleNotFound, "--tenant-admin-cluster-role", true},
		"bad names": {observed(a), plan{invalid: field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "no")}}, ended(),
			v1beta1.ReasonInvalidSpec, "spec", true},
	} {
		got, stalled := verdict(tc.o, tc.p, tc.res)
		wantStatus := metav1.ConditionFalse
		if tc.want == v1beta1.ReasonReconciled {
			wantStatus = metav1.ConditionTrue
		}
		if got.Reason != tc.want || got.Status != wantStatus || stalled != tc.stalled ||
			!strings.Contains(got.Message, tc.message) {
			t.Errorf("%s: got %s/%s stalled=%v %q, want %s/%s stalled=%v with %q",
				reason, got.Status, got.Reason, stalled, got.Message, wantStatus, tc.want, tc.stalled, tc.message)
		}
	}
}

// order is the precedence of the reasons: the first of two hides the other. Reasons that
// require a user's action precede those that a retry resolves.
var order = []string{
	v1beta1.ReasonNamespaceConflict, v1beta1.ReasonChildConflict, v1beta1.ReasonRBACForbidden,
	v1beta1.ReasonAdmissionDenied, v1beta1.ReasonQuotaExceeded, v1beta1.ReasonReconcileFailed,
	v1beta1.ReasonNamespaceTerminating, v1beta1.ReasonPending, v1beta1.ReasonReconciled,
}

func TestReasonPrecedence(t *testing.T) {
	if len(failureReasons) != len(order)-1 {
		t.Fatalf("%d failure reasons, and %d are tested", len(failureReasons), len(order)-1)
	}
	a := tenant("a")
	for _, deletingNow := range []bool{false, true} {
		for i, first := range order {
			for j, second := range order {
				outcomes := []outcome{
					{name: "x", reason: first, detail: "detail-of-x"}, {name: "y", reason: second, detail: "detail-of-y"}}
				want, stalled, named := order[min(i, j)], min(i, j) < 3, "x"
				if j < i {
					named = "y"
				}
				switch {
				case deletingNow && !stalled:
					want = v1beta1.ReasonDeleting
				case want == v1beta1.ReasonReconciled:
					named = ""
				}
				p := plan{deleting: deletingNow}
				status := summarize(observed(a), p, ended(outcomes...), epoch)
				ready := reporting.FindCondition(status.Conditions, v1beta1.ConditionReady)
				if ready.Reason != want || (ready.Status == metav1.ConditionTrue) != (want == v1beta1.ReasonReconciled) {
					t.Errorf("%s and %s, deleting %t: Ready %s (%s), want %s", first, second, deletingNow, ready.Status,
						ready.Reason, want)
				}
				if got := meta.IsStatusConditionTrue(status.Conditions, v1beta1.ConditionStalled); got != stalled {
					t.Errorf("%s and %s, deleting %t: stalled %t, want %t", first, second, deletingNow, got, stalled)
				}
				if min(i, j) < len(order)-1 && !strings.Contains(ready.Message, "detail-of-"+named) {
					t.Errorf("%s and %s, deleting %t: %q does not describe %s", first, second, deletingNow, ready.Message, named)
				}
				if len(status.Namespaces) != 2 {
					t.Errorf("%s and %s: listed %+v, want both", first, second, status.Namespaces)
				}
			}
		}
	}
}

func TestConflictAdvisesHandover(t *testing.T) {
	a := tenant("a")
	former := tenant("a", func(t *v1beta1.Tenant) { t.UID = "uid-former" })
	ctrlBy := func(ref metav1.OwnerReference) func(*corev1.Namespace) {
		return func(ns *corev1.Namespace) { ns.OwnerReferences = []metav1.OwnerReference{ref} }
	}
	const command = "kubectl annotate namespace a-dev --overwrite leasehold.dev/tenant-uid=uid-a"
	for name, tc := range map[string]struct {
		ns     *corev1.Namespace
		advice bool
	}{
		"a stranger's":                          {namespace("a-dev"), false},
		"a predecessor's":                       {namespace("a-dev", ownedBy(former), ctrlBy(metav1.OwnerReference{})), true},
		"a predecessor's, with owner reference": {namespace("a-dev", ownedBy(former)), true},
		"a predecessor's that is terminating":   {namespace("a-dev", ownedBy(former), terminating), false},
		"a predecessor's, controlled by another": {namespace("a-dev", ownedBy(former),
			ctrlBy(*metav1.NewControllerRef(namespace("z"), corev1.SchemeGroupVersion.WithKind("Namespace")))), false},
		"another Tenant's": {namespace("a-dev", ownedBy(tenant("b"))), false},
	} {
		o := observed(a, tc.ns)
		p := decide(o, "")
		r, _ := deniedWorld(t, func(string) error { return nil })
		ready := reporting.FindCondition(summarize(o, p, r.act(t.Context(), o, p), epoch).Conditions, v1beta1.ConditionReady)
		if ready.Reason != v1beta1.ReasonNamespaceConflict || strings.Contains(ready.Message, command) != tc.advice ||
			strings.Contains(ready.Message, conflictAdvice) == tc.advice || strings.Contains(ready.Message, "delete") {
			t.Errorf("%s: %s: %s", name, ready.Reason, ready.Message)
		}
		// The advised command must resolve the conflict.
		if handed := tc.ns.DeepCopy(); tc.advice {
			handed.Annotations[v1beta1.AnnotationTenantUID] = string(a.UID)
			if got := decide(observed(a, handed), "").steps[0].action; got != keep {
				t.Errorf("%s: after the command the namespace is to %s, want %s", name, got, keep)
			}
		}
	}
}

func TestSummarizeIsStable(t *testing.T) {
	a := tenant("a")
	o := observed(a)
	res := ended(outcome{name: "a-dev", uid: "d", reason: v1beta1.ReasonReconciled})
	first := summarize(o, plan{}, res, epoch)
	a.Status = first
	second := summarize(o, plan{}, res, epoch.Add(time.Hour))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the same outcome an hour later changes the status (-first +second):\n%s", diff)
	}
	if first.ObservedGeneration != 1 || len(first.Conditions) != 1 || first.Conditions[0].ObservedGeneration != 1 {
		t.Errorf("status %+v does not have the generation of the Tenant", first)
	}
}

func TestSummarizeDropsNamesAndStalled(t *testing.T) {
	a := tenant("a", owning("a-dev", "a-old"))
	o := observed(a)
	a.Status = summarize(o, plan{}, ended(
		outcome{name: "a-dev", reason: v1beta1.ReasonNamespaceConflict},
		outcome{name: "a-old", uid: "o", reason: v1beta1.ReasonNamespaceTerminating}), epoch)
	if !meta.IsStatusConditionTrue(a.Status.Conditions, v1beta1.ConditionStalled) || len(a.Status.Namespaces) != 2 {
		t.Fatalf("setup: %+v", a.Status)
	}
	got := summarize(o, plan{}, ended(outcome{name: "a-dev", uid: "d", reason: v1beta1.ReasonReconciled},
		outcome{name: "a-old"}), epoch)
	want := []v1beta1.TenantNamespace{{Name: "a-dev", UID: "d", Reason: v1beta1.ReasonReconciled}}
	if diff := cmp.Diff(want, got.Namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	if meta.FindStatusCondition(got.Conditions, v1beta1.ConditionStalled) != nil {
		t.Error("Stalled remains after the failure was resolved")
	}
}

func TestRefusedNamesAreNotCreated(t *testing.T) {
	var many []v1beta1.NamespaceSuffix
	for i := range 64 {
		many = append(many, v1beta1.NamespaceSuffix(fmt.Sprintf("n%d", i)))
	}
	a := tenant("a", naming(many...), prefix("kube-"))
	o := observed(a)
	p := decide(o, "")
	var written []string
	r, _ := deniedWorld(t, func(what string) error { written = append(written, what); return nil })
	res := r.act(t.Context(), o, p)
	if !slices.Equal(written, []string{"apply", "apply"}) {
		t.Errorf("wrote %q, want only the right of the admins to read their Tenant", written)
	}
	if got := summarize(o, p, res, epoch).Namespaces; len(got) > 0 {
		t.Errorf("names that were not created are listed: %+v", got)
	}
	ready := reporting.FindCondition(summarize(o, p, res, epoch).Conditions, v1beta1.ConditionReady)
	if ready.Reason != v1beta1.ReasonInvalidSpec || len(ready.Message) > 910 {
		t.Errorf("reason %s, message of %d bytes: an event takes 1024", ready.Reason, len(ready.Message))
	}
}

func TestRefusedNamesStayListedIfOwned(t *testing.T) {
	a := tenant("a", naming("system"), prefix("kube-"), owning("kube-system"))
	o := observed(a, namespace("kube-system"))
	r, _ := deniedWorld(t, func(string) error { return nil })
	p := decide(o, "")
	got := summarize(o, p, r.act(t.Context(), o, p), epoch).Namespaces
	want := []v1beta1.TenantNamespace{{Name: "kube-system", UID: "uid-kube-system", Reason: v1beta1.ReasonInvalidSpec}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

// An event reports each foreign namespace once, also if there is another one already.
func TestForeignNamespaceIsReportedOnce(t *testing.T) {
	a := tenant("a")
	status := func(names ...string) v1beta1.TenantStatus {
		o := observed(a)
		for _, name := range names {
			o.foreign = append(o.foreign, namespace(name))
		}
		return summarize(o, plan{}, ended(), epoch)
	}
	for name, tc := range map[string]struct {
		before, after v1beta1.TenantStatus
		want          string // is in the event; "" for none
	}{
		"none":                  {status(), status(), ""},
		"the first":             {status(), status("x"), "metadata of namespace x "},
		"the same again":        {status("x"), status("x"), ""},
		"another beside it":     {status("x"), status("x", "y"), "metadata of namespaces x, y "},
		"another in its place":  {status("x"), status("y"), "metadata of namespace y "},
		"the last one has gone": {status("x"), status(), ""},
	} {
		var got []string
		for _, n := range transitions(tc.before, tc.after, false) {
			if n.Reason == v1beta1.EventForeignNamespace {
				got = append(got, n.Message)
			}
		}
		if event := strings.Join(got, "|"); (event == "") != (tc.want == "") || !strings.HasPrefix(event, tc.want) ||
			len(got) > 1 {
			t.Errorf("%s: event %q, want %q", name, event, tc.want)
		}
	}
}

func TestTransitions(t *testing.T) {
	status := func(ready metav1.ConditionStatus, reason, message string,
		namespaces ...v1beta1.TenantNamespace) v1beta1.TenantStatus {
		return v1beta1.TenantStatus{Namespaces: namespaces, Conditions: []metav1.Condition{
			{Type: v1beta1.ConditionReady, Status: ready, Reason: reason, Message: message, ObservedGeneration: 1}}}
	}
	ok := status(metav1.ConditionTrue, v1beta1.ReasonReconciled, "fine")
	okNext := *ok.DeepCopy()
	okNext.Conditions[0].ObservedGeneration = 2
	failed := status(metav1.ConditionFalse, v1beta1.ReasonReconcileFailed, "boom")
	clash := status(metav1.ConditionFalse, v1beta1.ReasonNamespaceConflict, "clash",
		v1beta1.TenantNamespace{Name: "x", Reason: v1beta1.ReasonNamespaceConflict})
	progress := status(metav1.ConditionFalse, v1beta1.ReasonProgressing, "creating")
	for reason, tc := range map[string]struct {
		before, after v1beta1.TenantStatus
		wrote         bool
		want          string
	}{
		"the first Ready":               {v1beta1.TenantStatus{}, ok, true, "[Updated]"},
		"Ready again, nothing done":     {ok, ok, false, "[]"},
		"Ready, and drift was put back": {ok, ok, true, "[Updated]"},
		"Ready for a new generation":    {ok, okNext, false, "[Updated]"},
		"progress is no news":           {v1beta1.TenantStatus{}, progress, true, "[]"},
		"a failure":                     {ok, failed, false, "[Failed]"},
		"the same failure again":        {failed, failed, false, "[]"},
		"a conflict":                    {progress, clash, false, "[NamespaceConflict Failed]"},
		"the same conflict again":       {clash, clash, false, "[]"},
		"a conflict where all was well": {status(metav1.ConditionTrue, v1beta1.ReasonReconciled, "fine",
			v1beta1.TenantNamespace{Name: "x", Reason: v1beta1.ReasonReconciled}), clash, false, "[NamespaceConflict Failed]"},
		"recovery": {failed, ok, false, "[Updated]"},
	} {
		got := []string{}
		for _, n := range transitions(tc.before, tc.after, tc.wrote) {
			got = append(got, n.Reason)
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("%s: events %v, want %s", reason, got, tc.want)
		}
	}
	for _, n := range transitions(ok, failed, false) {
		if n.Message != "failed to reconcile: boom" || n.Type != corev1.EventTypeWarning {
			t.Errorf("got %+v, want the warning \"failed to reconcile: boom\"", n)
		}
	}
	for _, n := range transitions(progress, ok, true) {
		if n.Message != "the tenant was updated" || n.Type != corev1.EventTypeNormal {
			t.Errorf("got %+v, want the normal event \"the tenant was updated\"", n)
		}
	}
}

func TestIntentDeclaresNames(t *testing.T) {
	a := tenant("a", naming("dev", "prod"), owning("a-dev"))
	if declared(a, []string{"a-prod"}) {
		t.Error("a-prod is declared before the intent")
	}
	a.Status = intent(a, []string{"a-prod"}, epoch)
	want := []v1beta1.TenantNamespace{
		{Name: "a-dev", UID: "uid-a-dev", Reason: v1beta1.ReasonReconciled},
		{Name: "a-prod", Reason: v1beta1.ReasonPending}}
	if diff := cmp.Diff(want, a.Status.Namespaces); diff != "" {
		t.Errorf("intent (-want +got):\n%s", diff)
	}
	if !declared(a, []string{"a-prod"}) {
		t.Error("a-prod is not declared after the intent")
	}
	if a.Status.Namespaces[1].UID = "uid-former"; declared(a, []string{"a-prod"}) {
		t.Error("the record of a namespace that existed counts as a declaration")
	}
	a.Status.Namespaces[1].UID = ""
	a.Generation++
	if declared(a, []string{"a-prod"}) {
		t.Error("a declaration counts for another generation")
	}
}
