package tenant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// intent returns the status to write before namespaces are created. It records their
// names, so that after a crash the next reconcile can identify them as owned.
func intent(t *v1beta1.Tenant, creates []string, now time.Time) v1beta1.TenantStatus {
	status := *t.Status.DeepCopy()
	status.ObservedGeneration = t.Generation
	for _, name := range creates {
		setNamespace(&status, v1beta1.TenantNamespace{Name: name, Reason: v1beta1.ReasonPending})
	}
	reporting.SetCondition(&status.Conditions, t.Generation, now, metav1.Condition{
		Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonProgressing,
		Message: "creating " + namespacesText(creates),
	})
	return status
}

// declared reports whether the status records every name without a UID for this
// generation.
func declared(t *v1beta1.Tenant, creates []string) bool {
	for _, name := range creates {
		if !slices.ContainsFunc(t.Status.Namespaces,
			func(ns v1beta1.TenantNamespace) bool { return ns.Name == name && ns.UID == "" }) {
			return false
		}
	}
	return t.Status.ObservedGeneration == t.Generation
}

// summarize returns the status after a reconcile. It is pure.
func summarize(o *observation, p plan, res *result, now time.Time) v1beta1.TenantStatus {
	t := o.tenant
	status := *t.Status.DeepCopy()
	status.ObservedGeneration = t.Generation
	status.Namespaces = nil
	for _, out := range res.outcomes {
		if out.reason != "" {
			setNamespace(&status, v1beta1.TenantNamespace{Name: out.name, UID: out.uid, Reason: out.reason})
		}
	}
	ready, stalled := verdict(o, p, res)
	reporting.SetCondition(&status.Conditions, t.Generation, now, ready)
	if stalled {
		reporting.SetCondition(&status.Conditions, t.Generation, now, metav1.Condition{
			Type: v1beta1.ConditionStalled, Status: metav1.ConditionTrue, Reason: ready.Reason, Message: ready.Message})
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionStalled)
	}
	if names := namesOf(slices.Concat(o.foreign, p.disown)); len(names) > 0 {
		reporting.SetCondition(&status.Conditions, t.Generation, now, metav1.Condition{
			Type: v1beta1.ConditionForeignNamespace, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonClaimed,
			Message: "metadata of " + namespacesText(names) +
				" falsely names this Tenant as the owner; the operator removes only the owner reference; find out who set it, and remove the rest"})
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionForeignNamespace)
	}
	return status
}

// failureReasons lists the reasons in order of precedence. If several apply, the status
// reports the first. A stalled reason requires a user's action.
var failureReasons = []struct {
	reason  string
	stalled bool
	message string // %s: the namespaces
}{
	{v1beta1.ReasonNamespaceConflict, true,
		"cannot create %s: a namespace of that name exists and does not belong to this Tenant; " + conflictAdvice},
	{v1beta1.ReasonChildConflict, true, ""},
	{v1beta1.ReasonRBACForbidden, true, ""},
	{v1beta1.ReasonAdmissionDenied, false, ""},
	{v1beta1.ReasonQuotaExceeded, false, ""},
	{v1beta1.ReasonReconcileFailed, false, ""},
	{v1beta1.ReasonNamespaceTerminating, false, "waiting for the deletion of %s"},
	{v1beta1.ReasonPending, false, "reconciling %s"},
}

// verdict returns the Ready condition, and whether the Tenant is stalled.
func verdict(o *observation, p plan, res *result) (metav1.Condition, bool) {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	if len(p.invalid) > 0 {
		return no(v1beta1.ReasonInvalidSpec, reporting.Bounded(p.invalid.ToAggregate().Error())), true
	}
	for _, kind := range failureReasons {
		message, found := describe(kind.reason, kind.message, append(slices.Clone(res.outcomes), res.reader))
		if !found {
			continue
		}
		reason := kind.reason
		if p.deleting && !kind.stalled {
			reason = v1beta1.ReasonDeleting
		}
		return no(reason, reporting.Bounded(message)), kind.stalled
	}
	if len(res.errs) > 0 {
		reason := reasonFor(res.errs[0])
		return no(reason, reporting.Bounded(res.errs[0].Error())), reason == v1beta1.ReasonRBACForbidden
	}
	if p.deleting {
		return no(v1beta1.ReasonDeleting, "removing the last rights of the admins"), false
	}
	if o.missingAdminRole != "" {
		return no(v1beta1.ReasonAdminRoleNotFound,
			fmt.Sprintf("ClusterRole %s does not exist, so the admins cannot be bound to it; create it, or change the operator's flag --tenant-admin-cluster-role", o.missingAdminRole)), true
	}
	return metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonReconciled,
		Message: "reconciled " + namespacesText(namesReported(res.outcomes))}, false
}

// describe returns the message for all outcomes of one reason; found is false if there are
// none. The advice of an outcome replaces the general message.
func describe(reason, general string, outcomes []outcome) (message string, found bool) {
	var names, details, advice []string
	for _, out := range outcomes {
		switch {
		case out.reason != reason:
			continue
		case out.advice != "":
			advice = append(advice, out.advice)
		case out.name != "":
			names = append(names, out.name)
		}
		found = true
		if out.detail != "" {
			details = append(details, out.detail)
		}
	}
	message = strings.Join(details, "; ")
	if general != "" && len(names) > 0 {
		message = strings.TrimSuffix(fmt.Sprintf(general, namespacesText(names))+": "+message, ": ")
	}
	if message != "" {
		advice = slices.Insert(advice, 0, message)
	}
	return strings.Join(advice, "; "), found
}

// about adds a namespace to an event as the related object.
func about(n reporting.PendingEvent, namespace string) reporting.PendingEvent {
	return n.About(&corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: namespace})
}

// transitions returns the events for the change from one status to the next. An unchanged
// status has none.
func transitions(before, after v1beta1.TenantStatus, wrote bool) []reporting.PendingEvent {
	var list []reporting.PendingEvent
	was := map[string]string{}
	for _, ns := range before.Namespaces {
		was[ns.Name] = ns.Reason
	}
	for _, ns := range after.Namespaces {
		if ns.Reason == v1beta1.ReasonNamespaceConflict && was[ns.Name] != ns.Reason {
			list = append(list, about(reporting.Warning(v1beta1.EventNamespaceConflict, "Create",
				"namespace %s exists and does not belong to this Tenant; "+conflictAdvice,
				ns.Name), ns.Name))
		}
	}
	old, now := reporting.FindCondition(before.Conditions, v1beta1.ConditionForeignNamespace),
		reporting.FindCondition(after.Conditions, v1beta1.ConditionForeignNamespace)
	if now.Message != "" && now.Message != old.Message {
		list = append(list, reporting.Warning(v1beta1.EventForeignNamespace, "Disown", "%s", now.Message))
	}
	old, now = reporting.FindCondition(before.Conditions, v1beta1.ConditionReady),
		reporting.FindCondition(after.Conditions, v1beta1.ConditionReady)
	switch {
	case now.Status == metav1.ConditionTrue &&
		(wrote || old.Status != metav1.ConditionTrue || old.ObservedGeneration != now.ObservedGeneration):
		list = append(list, reporting.Normal(v1beta1.EventUpdated, "Reconcile", "the tenant was updated"))
	case failing(now) && (now.Reason != old.Reason || now.Message != old.Message):
		list = append(list, reporting.Warning(v1beta1.EventFailed, now.Reason, "failed to reconcile: %s", now.Message))
	}
	return list
}

// failing reports whether the Ready condition describes a failure and not progress.
func failing(ready metav1.Condition) bool {
	switch ready.Reason {
	case v1beta1.ReasonReconciled, v1beta1.ReasonProgressing, v1beta1.ReasonPending, v1beta1.ReasonNamespaceTerminating,
		v1beta1.ReasonDeleting, "":
		return false
	}
	return true
}

func setNamespace(status *v1beta1.TenantStatus, ns v1beta1.TenantNamespace) {
	for i := range status.Namespaces {
		if status.Namespaces[i].Name == ns.Name {
			status.Namespaces[i] = ns
			return
		}
	}
	status.Namespaces = append(status.Namespaces, ns)
}

// namespacesText joins at most five names for a message.
func namespacesText(names []string) string {
	const most = 5
	noun := "namespace"
	if len(names) != 1 {
		noun += "s"
	}
	if len(names) > most {
		return fmt.Sprintf("%d %s (%s and %d more)", len(names), noun, strings.Join(names[:most], ", "), len(names)-most)
	}
	return fmt.Sprintf("%s %s", noun, strings.Join(names, ", "))
}

func namesOf(namespaces []*corev1.Namespace) []string {
	var names []string
	for _, ns := range namespaces {
		names = append(names, ns.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// namesReported returns the names that the status lists after the reconcile.
func namesReported(outcomes []outcome) []string {
	var names []string
	for _, out := range outcomes {
		if out.reason != "" {
			names = append(names, out.name)
		}
	}
	return names
}
