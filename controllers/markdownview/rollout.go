package markdownview

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// rollout is the state of the viewers.
type rollout struct {
	// absent is true if the view owns no Deployment, or this reconcile created it.
	absent bool
	// observed is true if the Deployment controller has observed the current generation. The
	// numbers are valid only then.
	observed                     bool
	replicas, updated, available int32
	// finished is true if all replicas were available at some time since the last change.
	finished bool
	// exceeded is the message of an exceeded progress deadline; "" if it is not exceeded.
	exceeded string
}

func rolloutOf(o *observation, res *result) rollout {
	d := o.deployment
	if d == nil || ownerOf(o.view, d) != self {
		return rollout{absent: true}
	}
	if res.outcomes[deployment] == changed || d.Status.ObservedGeneration < d.Generation {
		return rollout{}
	}
	out := rollout{observed: true, replicas: d.Status.Replicas, updated: d.Status.UpdatedReplicas,
		available: d.Status.AvailableReplicas}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse &&
			c.Reason == "ProgressDeadlineExceeded" {
			out.exceeded = c.Message
		}
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable" {
			out.finished = true
		}
	}
	return out
}

// complete reports whether exactly the desired viewers exist, all updated and available.
func (r rollout) complete(want int32) bool {
	return r.observed && r.replicas == want && r.updated == want && r.available == want
}
