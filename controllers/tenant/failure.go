package tenant

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"leasehold.dev/api/v1beta1"
)

// foreignError is the error for an object that exists and is not the Tenant's.
type foreignError struct{ kind, name string }

func (e foreignError) Error() string {
	return fmt.Sprintf("%s %s exists and does not belong to this Tenant; remove it, and the operator will make its own", e.kind, e.name)
}

// reasonFor names a failure.
func reasonFor(err error) string {
	var foreign foreignError
	switch {
	case errors.As(err, &foreign):
		return v1beta1.ReasonChildConflict
	case terminatingCause(err):
		return v1beta1.ReasonNamespaceTerminating
	case apierrors.IsForbidden(err):
		return v1beta1.ReasonRBACForbidden
	default:
		return v1beta1.ReasonReconcileFailed
	}
}

// terminatingCause: the API server refused because the namespace is on its way
// out, which the cache did not show yet.
func terminatingCause(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// remaining is what a terminating namespace says it waits for.
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
