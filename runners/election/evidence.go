// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// HolderPodAnnotation names the holder's Pod on the Lease, as "<identity>/<Pod UID>". It contains
// the identity so that the annotation of another holder does not count.
const HolderPodAnnotation = "leasehold.dev/holder-pod"

// HolderStartedAnnotation records on the Lease when the holder's process started, as
// "<identity>/<RFC 3339 time>". It identifies the holder's container.
const HolderStartedAnnotation = "leasehold.dev/holder-started"

// annotate writes the holder's Pod and start to the Lease. Without a holder or a UID it removes the
// annotations.
func annotate(lease *coordinationv1.Lease, holder string, uid types.UID, started time.Time) {
	if holder == "" || uid == "" {
		delete(lease.Annotations, HolderPodAnnotation)
		delete(lease.Annotations, HolderStartedAnnotation)
		return
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[HolderPodAnnotation] = holder + "/" + string(uid)
	lease.Annotations[HolderStartedAnnotation] = holder + "/" + started.UTC().Format(time.RFC3339Nano)
}

// holder is the process that a Lease names.
type holder struct {
	pod     string
	uid     types.UID
	started time.Time // by the clock of the holder's node at that moment; zero if unknown
	renewed time.Time // by the same clock, which may have been set meanwhile
}

// holderOf returns the process that holds the Lease, if the Lease names its Pod.
func holderOf(lease *coordinationv1.Lease) (holder, bool) {
	if lease == nil || lease.Spec.AcquireTime == nil {
		return holder{}, false
	}
	identity := ptr.Deref(lease.Spec.HolderIdentity, "")
	uid, named := strings.CutPrefix(lease.Annotations[HolderPodAnnotation], identity+"/")
	end := strings.LastIndexByte(identity, '_')
	if !named || uid == "" || end <= 0 {
		return holder{}, false
	}
	h := holder{pod: identity[:end], uid: types.UID(uid), renewed: lease.Spec.AcquireTime.Time}
	if lease.Spec.RenewTime != nil {
		h.renewed = lease.Spec.RenewTime.Time
	}
	if text, named := strings.CutPrefix(lease.Annotations[HolderStartedAnnotation], identity+"/"); named {
		// A text that is no time leaves zero, which no container's time matches.
		h.started, _ = time.Parse(time.RFC3339Nano, text)
	}
	return h, true
}

// endOf returns why the Pod shows that the holder's process has ended, or "" if it does not.
func endOf(pod *corev1.Pod, h holder, container string) string {
	if pod == nil || pod.Name != h.pod || pod.UID != h.uid {
		return ""
	}
	status := statusOf(pod, container)
	if reason := endOfContainer(status, h); reason != "" {
		return reason
	}
	running := status.State.Running != nil
	terminal := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	// A phase is final, whenever the Lease was acquired. Only the kubelet reports what runs: one
	// that cannot be reached did not end anything, although the control plane failed its Pod.
	if terminal && !running && !isFailedByPodGC(pod) {
		return fmt.Sprintf("Pod %s has phase %s", pod.Name, pod.Status.Phase)
	}
	return ""
}

// endOfContainer returns why the holder's container has ended. A running container is no evidence:
// after a change of the clock, its start time cannot be compared with the Lease.
func endOfContainer(status corev1.ContainerStatus, h holder) string {
	terminated := status.State.Terminated
	if terminated == nil {
		terminated = status.LastTerminationState.Terminated
	}
	if terminated == nil || !h.ended(terminated) {
		return ""
	}
	if running := status.State.Running; running != nil {
		return fmt.Sprintf("container %s of Pod %s was restarted at %s", status.Name, h.pod,
			running.StartedAt.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("container %s of Pod %s terminated at %s with exit code %d",
		status.Name, h.pod, terminated.FinishedAt.UTC().Format(time.RFC3339), terminated.ExitCode)
}

// ended reports whether the terminated container is the holder's: its lifetime contains the start of
// the holder's process. The kubelet's times are of the same clock and have whole seconds, rounded
// down. So a container that ended within the second in which the process started does not count.
//
// A clock that is set after the start does not change these times. Only a clock that is set forward
// and back, while a container runs before the holder's, could make that one match.
//
// A holder that has renewed the Lease after that end, in whole seconds, is alive.
func (h holder) ended(c *corev1.ContainerStateTerminated) bool {
	return !h.started.IsZero() && !c.StartedAt.After(h.started) && c.FinishedAt.After(h.started) &&
		!c.FinishedAt.Time.Before(h.renewed.Truncate(time.Second))
}

// statusOf finds the container by its name; "" means the only one. The status of an unknown one is empty.
func statusOf(pod *corev1.Pod, container string) corev1.ContainerStatus {
	if container == "" && len(pod.Spec.Containers) == 1 {
		container = pod.Spec.Containers[0].Name
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// isFailedByPodGC reports whether the control plane has failed the Pod because it cannot reach its node.
func isFailedByPodGC(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByPodGC"
	})
}
