// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/failure"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// conflictAdvice resolves a NamespaceConflict without the loss of data.
const conflictAdvice = "choose another name in spec.namespaces, or ask a cluster administrator to hand over the " +
	"namespace and its contents with the annotation " + v1beta1.AnnotationTenantUID + " (docs/tenants.md)"

// report writes the status if it changed, and records events for the transitions. It returns the error that requires
// another reconcile.
func (r *Reconciler) report(ctx context.Context, o *observation, res *result) (ctrl.Result, error) {
	if res.released || res.Retry != nil { // no failure of the Tenant; the next reconcile reads the change
		return ctrl.Result{}, res.Retry
	}
	status := summarize(o, res, r.Clock.Now())
	return ctrl.Result{}, res.Join(r.write(ctx, o.tenant, o.before, status, res.wrote))
}

// reportPaused reports that an annotation suspends the Tenant. It leaves the other conditions as they are.
func (r *Reconciler) reportPaused(ctx context.Context, t *v1beta1.Tenant) error {
	status := *t.Status.DeepCopy()
	reporting.SetPaused(&status.Conditions, t.Generation, r.Clock.Now(),
		"reconciliation of this Tenant is paused, even if the Tenant is being deleted,")
	return r.write(ctx, t, status, status, false)
}

// fail reports an error that prevents a reconcile, and returns it.
func (r *Reconciler) fail(ctx context.Context, t *v1beta1.Tenant, err error) error {
	return reconciler.Fail(err, func() error {
		status := observedStatus(t)
		reporting.SetReady(&status.Conditions, t.Generation, r.Clock.Now(),
			notReady(failure.Of(err).Reason, err.Error()))
		return r.write(ctx, t, t.Status, status, false)
	})
}

// write writes a status that differs from the stored one, sets the metrics, and records the events of the change since
// before.
func (r *Reconciler) write(ctx context.Context, t *v1beta1.Tenant, before, status v1beta1.TenantStatus,
	wrote bool) error {
	after := t.DeepCopy()
	after.Status = status
	r.metrics.set(after)
	return r.Report(ctx, t, after, transitions(before, status, wrote)...)
}

// intent returns the status to write before namespaces are created. It records their names, so that after a
// crash the next reconcile can identify them as owned.
func intent(t *v1beta1.Tenant, creates []string, now time.Time) v1beta1.TenantStatus {
	status := observedStatus(t)
	status.Namespaces = slices.DeleteFunc(status.Namespaces,
		func(recorded v1beta1.TenantNamespace) bool { return slices.Contains(creates, recorded.Name) })
	for _, name := range creates {
		status.Namespaces = append(status.Namespaces, v1beta1.TenantNamespace{Name: name, Reason: v1beta1.ReasonPending})
	}
	reporting.SetCondition(&status.Conditions, t.Generation, now,
		notReady(v1beta1.ReasonProgressing, "creating "+namespacesText(creates)))
	return status
}

// observedStatus returns the status for the Tenant's generation before the namespaces are as it says. What was
// reconciled for a former generation is pending: a difference that is left after an interruption is no drift.
func observedStatus(t *v1beta1.Tenant) v1beta1.TenantStatus {
	status := *t.Status.DeepCopy()
	for i, ns := range status.Namespaces {
		if status.ObservedGeneration != t.Generation && ns.Reason == v1beta1.ReasonReconciled {
			status.Namespaces[i].Reason = v1beta1.ReasonPending
		}
	}
	status.ObservedGeneration = t.Generation
	return status
}

// summarize returns the status after a reconcile. It is pure.
func summarize(o *observation, res *result, now time.Time) v1beta1.TenantStatus {
	t := o.tenant
	status := *t.Status.DeepCopy()
	status.ObservedGeneration = t.Generation
	status.LastHandledReconcileAt = reconciler.RequestedAt(t)
	status.Namespaces = nil
	for _, ns := range res.states {
		if ns.name != "" && ns.reason != "" {
			status.Namespaces = append(status.Namespaces,
				v1beta1.TenantNamespace{Name: ns.name, UID: ns.uid, Reason: ns.reason})
		}
	}
	reporting.SetReady(&status.Conditions, t.Generation, now, ready(o, res))
	reporting.SetCorrected(&status.Conditions, t.Generation, now, res.events)
	return status
}

func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// failureReasons lists the reasons in order of precedence. If several apply, the status reports the first.
var failureReasons = []struct {
	reason  string
	message string // %s: the namespaces
}{
	{v1beta1.ReasonNamespaceConflict,
		"cannot create %s: a namespace with the same name exists and does not belong to this Tenant; " + conflictAdvice},
	{v1beta1.ReasonChildConflict, ""},
	{v1beta1.ReasonRBACForbidden, ""},
	{v1beta1.ReasonAdmissionDenied, ""},
	{v1beta1.ReasonQuotaExceeded, ""},
	{v1beta1.ReasonReconcileFailed, ""},
	{v1beta1.ReasonNamespaceTerminating, "waiting for the deletion of %s"},
	{v1beta1.ReasonPending, "reconciling %s"},
}

// ready returns the Ready condition after a reconcile.
func ready(o *observation, res *result) metav1.Condition {
	if len(o.invalid) > 0 {
		return notReady(v1beta1.ReasonInvalidSpec, o.invalid.ToAggregate().Error())
	}
	for _, kind := range failureReasons {
		message, found := describe(kind.reason, kind.message, res.states)
		switch {
		case found && o.deleting() && !reporting.IsStalled(kind.reason):
			return notReady(v1beta1.ReasonDeleting, message)
		case found:
			return notReady(kind.reason, message)
		}
	}
	switch {
	case len(res.Failed) > 0:
		return notReady(failure.Of(res.Failed[0]).Reason, res.Failed[0].Error())
	case o.deleting():
		return notReady(v1beta1.ReasonDeleting, "removing the last permissions of the admins")
	case o.missingAdminRole != "":
		return notReady(v1beta1.ReasonAdminRoleNotFound, fmt.Sprintf("ClusterRole %s does not exist, so the "+
			"operator cannot bind the admins to it; create the ClusterRole, or change the operator's "+
			"flag --tenant-admin-cluster-role", o.missingAdminRole))
	}
	message, _ := describe(v1beta1.ReasonReconciled, "reconciled %s", res.states)
	return metav1.Condition{Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonReconciled,
		Message: message}
}

// describe returns the message for all states of one reason; found is false if there are none.
func describe(reason, general string, states []state) (message string, found bool) {
	var names, details []string
	for _, ns := range states {
		if ns.reason != reason {
			continue
		}
		found = true
		if ns.name != "" {
			names = append(names, ns.name)
		}
		if ns.detail != "" {
			details = append(details, ns.detail)
		}
	}
	message = strings.Join(details, "; ")
	if general != "" && len(names) > 0 {
		message = strings.TrimSuffix(fmt.Sprintf(general, namespacesText(names))+": "+message, ": ")
	}
	return message, found
}

// remaining returns what delays a namespace's deletion: the conditions of the namespace controller, and the
// finalizers of the namespace itself, which no condition has.
func remaining(ns *corev1.Namespace) string {
	var causes []string
	for _, c := range ns.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			causes = append(causes, c.Message)
		}
	}
	finalizers := slices.Clone(ns.Finalizers)
	for _, f := range ns.Spec.Finalizers {
		if f != corev1.FinalizerKubernetes {
			finalizers = append(finalizers, string(f))
		}
	}
	if len(finalizers) > 0 {
		causes = append(causes, "the namespace itself has finalizers: "+strings.Join(finalizers, ", "))
	}
	return strings.Join(causes, "; ")
}

// handoverAdvice returns the command that hands over a namespace of a former Tenant of the same name, as
// after a restore. It returns "" if there was no such Tenant.
func handoverAdvice(t *v1beta1.Tenant, ns *corev1.Namespace) string {
	if !isOrphaned(t, ns) || isControlledByOther(t, ns) {
		return ""
	}
	return fmt.Sprintf("%s belonged to a former Tenant %s (UID %s); if the namespace and this Tenant were "+
		"restored from a backup, a cluster administrator can "+
		"hand over the namespace: "+
		"kubectl annotate namespace %s --overwrite %s=%s",
		ns.Name, t.Name, annotatedUID(ns), ns.Name, v1beta1.AnnotationTenantUID, t.UID)
}

// transitions returns the events for the change from one status to the next. An unchanged status has none.
func transitions(before, after v1beta1.TenantStatus, wrote bool) []reporting.PendingEvent {
	old := reporting.FindCondition(before.Conditions, v1beta1.ConditionReady)
	switch now := reporting.FindCondition(after.Conditions, v1beta1.ConditionReady); {
	case now.Status == metav1.ConditionTrue &&
		(wrote || old.Status != metav1.ConditionTrue || old.ObservedGeneration != now.ObservedGeneration):
		return []reporting.PendingEvent{reporting.Normal(v1beta1.EventUpdated, "Reconcile", "the Tenant was updated")}
	case !slices.Contains(progress, now.Reason) && (now.Reason != old.Reason || now.Message != old.Message):
		return []reporting.PendingEvent{
			reporting.Warning(v1beta1.EventFailed, now.Reason, "failed to reconcile: %s", now.Message)}
	}
	return nil
}

// progress are the reasons of Ready that describe no failure.
var progress = []string{v1beta1.ReasonReconciled, v1beta1.ReasonProgressing, v1beta1.ReasonPending,
	v1beta1.ReasonNamespaceTerminating, v1beta1.ReasonDeleting, ""}

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
