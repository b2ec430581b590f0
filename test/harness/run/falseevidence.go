// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// Variants of false-evidence.
const (
	// variantDeleted is a forced deletion.
	variantDeleted = "deleted"
	// variantReplaced is a forced deletion and another Pod of that name, which has failed.
	variantReplaced = "replaced"
)

// evidences are all of them.
var evidences = []string{variantDeleted, variantReplaced}

var falseEnd = spec{
	fault: "false-evidence", family: "false-evidence",
	variants: evidences,
	texts: map[string]string{
		variantDeleted:  "when the API server has carried out TARGET, the leader's Pod is force-deleted, while the leader's process keeps running",
		variantReplaced: "when the API server has carried out TARGET, the leader's Pod is force-deleted and a new Pod of that name fails, while the leader's process keeps running",
	},
	takesOver: true, derive: oneWriteEach, injector: heldAction{fault.AfterAnswer, deletePod},
}

// oneWriteEach plans each variant at a write that the seed selects.
func oneWriteEach(d *derivation, f scenario.FaultName) []Plan {
	var plans []Plan
	writes := d.writes()
	for _, variant := range evidences {
		plans = append(plans, d.one(d.at(f, variant, writes))...)
	}
	return plans
}

// deletePod deletes the leader's Pod by force. A standby must not take that, or the state of
// another Pod of the same name, for the end of the process. The API server accepts the process's
// token for some seconds more, so the process leads until then. Afterwards another replica takes
// its place.
func deletePod(ctx context.Context, a *activeFault, r *replica, held heldRequest) (err error) {
	life, began := len(r.lifetimes())-1, a.now()
	held.Release()
	identity, pod, err := a.leaderPod(ctx, r)
	if err != nil || pod == nil {
		return err
	}
	done := "its Pod was deleted by force"
	if err := a.prover.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("deleting Pod %s: %w", pod.Name, err)
	}
	// This also runs if no other replica leads: the next run needs a replica that works.
	defer func() { err = errors.Join(err, a.prover.replaceReplica(context.WithoutCancel(ctx), r)) }()
	if a.plan.Variant == variantReplaced {
		done += ", and another of its name failed"
		if err := a.addFailedPod(ctx, pod); err != nil {
			return err
		}
	}
	next, err := a.waitForSuccessor(ctx, r, identity)
	if next == nil || err != nil {
		return err
	}
	// A process that ends right after the takeover may have ended before it, because the records
	// have no order.
	if err := a.waitUntilStepsDown(ctx, r, life); err != nil {
		return err
	}
	a.record(history.FaultRecord{
		Replica: r.process.Name(), Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("%s, at %s, and replica %s led %s later", done, held.Request, next.process.Name(),
			next.since.Sub(began).Round(time.Millisecond)),
	})
	return nil
}

// leaderPod returns the identity with which a replica holds the Lease, and its Pod, which is in the
// namespace of the Lease. It returns no Pod for a replica that does not lead. Both are read before
// the fault, because a standby may take over at once.
func (a *activeFault) leaderPod(ctx context.Context, r *replica) (identity string, pod *corev1.Pod, err error) {
	lease, err := a.prover.readLease(ctx)
	if err != nil {
		return "", nil, err
	}
	identity = holderOf(lease)
	if last := a.prover.lastRenewer(); identity == "" || last != nil && last != r {
		a.setVoidReason("replica %s did not lead when it began: %q did", r.process.Name(), identity)
		return identity, nil, nil
	}
	key, pod := client.ObjectKey{Namespace: a.prover.subject.Contract.Lease.Namespace, Name: r.process.Name()},
		&corev1.Pod{}
	if err := a.prover.client.Get(ctx, key, pod); err != nil {
		return "", nil, fmt.Errorf("reading the Pod of replica %s: %w", r.process.Name(), err)
	}
	return identity, pod, nil
}

// addFailedPod creates another Pod of the same name for this run, and writes to its status that its
// containers terminated. The time is the next whole second: a time before the holder's last renewal
// would be no evidence.
func (a *activeFault) addFailedPod(ctx context.Context, like *corev1.Pod) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: like.Namespace, Name: like.Name, Labels: like.Labels},
		Spec:       *like.Spec.DeepCopy(),
	}
	if err := a.prover.client.Create(ctx, pod); err != nil {
		return fmt.Errorf("making another Pod %s: %w", pod.Name, err)
	}
	a.atEnd(func(ctx context.Context) error {
		return client.IgnoreNotFound(a.prover.client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
	})
	before := pod.DeepCopy()
	finished := metav1.NewTime(a.now().Truncate(time.Second).Add(time.Second))
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodFailed, nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error",
				FinishedAt: finished}},
		})
	}
	if err := a.prover.client.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("reporting the end of Pod %s: %w", pod.Name, err)
	}
	return nil
}
