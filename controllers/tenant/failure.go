package tenant

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/denial"
)

// foreignError reports that an object exists and does not belong to the Tenant.
type foreignError struct{ kind, name string }

func (e foreignError) Error() string {
	return fmt.Sprintf("%s %s exists and does not belong to this Tenant; give up one of the two claims: correct its owner, or choose other names in spec.namespaces",
		e.kind, e.name)
}

// bindError reports that RBAC forbids the operator to bind the admins to a role.
type bindError struct {
	role string
	err  error
}

// Error omits the API server's message, which lists every rule of the role.
func (e bindError) Error() string {
	return fmt.Sprintf("the operator lacks the right bind on ClusterRole %s, so binding the admins to it is forbidden; "+
		"add %s to the resourceNames beside bind in the operator's ClusterRole (config/rbac/manager_role.yaml), "+
		"or change the flag --tenant-admin-cluster-role", e.role, e.role)
}

func (e bindError) Unwrap() error { return e.err }

// handover returns the command that hands over a namespace of a former Tenant of the same
// name, as after a restore. It returns "" if there was no such Tenant.
func handover(t *v1beta1.Tenant, ns *corev1.Namespace) string {
	if !isOrphaned(t, ns) || isControlledByOther(t, ns) || !ns.DeletionTimestamp.IsZero() {
		return ""
	}
	return fmt.Sprintf("namespace %s belonged to a former Tenant %s (UID %s); if both were restored from a backup, an administrator hands it over: "+
		"kubectl annotate namespace %s --overwrite %s=%s",
		ns.Name, t.Name, ns.Annotations[v1beta1.AnnotationTenantUID], ns.Name, v1beta1.AnnotationTenantUID, t.UID)
}

// conflictAdvice resolves a NamespaceConflict without the loss of data.
const conflictAdvice = "choose another name in spec.namespaces, or have an administrator hand the namespace over with its contents, " +
	"by its annotation " + v1beta1.AnnotationTenantUID + " (docs/tenants.md)"

// reasonFor maps an error to a condition reason.
func reasonFor(err error) string {
	var foreign foreignError
	switch {
	case errors.As(err, &foreign):
		return v1beta1.ReasonChildConflict
	case terminatingCause(err):
		return v1beta1.ReasonNamespaceTerminating
	}
	if reason := denial.Of(err).Reason(); reason != "" {
		return reason
	}
	return v1beta1.ReasonReconcileFailed
}

// terminatingCause reports whether the API server refused a write because the namespace
// is terminating, which a stale cache does not show.
func terminatingCause(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// remaining returns the message of the condition that delays a namespace's deletion.
func remaining(ns *corev1.Namespace) string {
	for _, c := range ns.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case corev1.NamespaceFinalizersRemaining, corev1.NamespaceDeletionContentFailure, corev1.NamespaceContentRemaining:
			return c.Message
		}
	}
	return ""
}

// explain returns a bindError if the API server refused to bind a role, and err otherwise.
func explain(err error, role string) error {
	var explained bindError
	if denial.Of(err).Kind != denial.Grant || errors.As(err, &explained) {
		return err
	}
	return bindError{role, err}
}

// prevents reports whether a binding has to be replaced or removed, because a change of it was
// refused for its content, for the rights of its role, or for changes by other clients.
func (o *observation) prevents(refused error) bool {
	if apierrors.IsConflict(refused) {
		return o.contested
	}
	kind := denial.Of(refused).Kind
	return kind == denial.Grant || kind == denial.None && apply.BlockedByContent(refused)
}
