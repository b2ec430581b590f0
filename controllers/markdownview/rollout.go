// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/failure"
)

// rollout is the state of the viewers.
type rollout struct {
	// absent is true if the view owns no Deployment, or this reconcile created it.
	absent bool
	// observed is true if the Deployment controller has observed the current generation. The
	// numbers are valid only then.
	observed                     bool
	replicas, updated, available int32
	paused                       bool
	// finished is true if all replicas were available at some time since the last change.
	finished bool
	// exceeded is the message of an exceeded progress deadline; "" if it is not exceeded.
	exceeded string
	// rejected is the message of the refusal of a Pod; "" if there is none.
	rejected string
}

func rolloutOf(o *observation, res *result) rollout {
	d := o.deployment
	if d == nil || ownerOf(o.view, d) != self {
		return rollout{absent: true}
	}
	if res.wrote[deployment] || d.Status.ObservedGeneration < d.Generation {
		return rollout{}
	}
	run := rollout{observed: true, replicas: d.Status.Replicas, updated: d.Status.UpdatedReplicas,
		available: d.Status.AvailableReplicas, paused: d.Spec.Paused}
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue:
			run.rejected = c.Message
		case c.Type != appsv1.DeploymentProgressing:
		case c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded":
			run.exceeded = c.Message
		case c.Reason == "NewReplicaSetAvailable":
			run.finished = true
		}
	}
	return run
}

// complete reports whether exactly the desired viewers exist, all updated and available.
func (r rollout) complete(want int32) bool {
	return r.observed && r.replicas == want && r.updated == want && r.available == want
}

// refusalOf returns the reason for the refusal of a Pod, of which a Deployment has only the message.
func refusalOf(message string) string {
	if !strings.Contains(message, "forbidden") {
		return v1beta1.ReasonReconcileFailed
	}
	return failure.Of(&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden,
		Message: message}}).Reason
}
