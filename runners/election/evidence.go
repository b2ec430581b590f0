package election

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// HolderPodAnnotation names the holder's Pod on the Lease, as "<identity>/<Pod UID>". It contains
// the identity so that the annotation of another holder does not count.
const HolderPodAnnotation = "leasehold.dev/holder-pod"

// failedByPodGC is the reason of the condition DisruptionTarget with which the control plane
// fails a Pod whose node it cannot reach.
const failedByPodGC = "DeletionByPodGC"

// annotate writes the holder's Pod to the Lease. Without a holder or a UID it removes the
// annotation.
func annotate(lease *coordinationv1.Lease, holder string, uid types.UID) {
	if holder == "" || uid == "" {
		delete(lease.Annotations, HolderPodAnnotation)
		return
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[HolderPodAnnotation] = holder + "/" + string(uid)
}

// holder is the process that a Lease names.
type holder struct {
	pod      string
	uid      types.UID
	acquired time.Time // by the clock of the holder's node
	renewed  time.Time // by the same clock
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
	h := holder{pod: identity[:end], uid: types.UID(uid), acquired: lease.Spec.AcquireTime.Time}
	h.renewed = h.acquired
	if lease.Spec.RenewTime != nil {
		h.renewed = lease.Spec.RenewTime.Time
	}
	return h, true
}

// endOf returns why the Pod shows that the holder's process has ended, or "" if it does not.
//
// The kubelet's times and the Lease's come from the clock of one node, so they are comparable.
// The kubelet's have whole seconds, rounded down: a container that ended within the second in
// which it acquired the Lease is no evidence, which is the safe side.
func endOf(pod *corev1.Pod, h holder, container string) string {
	if pod == nil || pod.Name != h.pod || pod.UID != h.uid {
		return ""
	}
	status := statusOf(pod, container)
	if status != nil {
		if reason := endOfContainer(status, h); reason != "" {
			return reason
		}
	}
	running := status != nil && status.State.Running != nil
	terminal := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	// A phase is final, whenever the Lease was acquired. Only the kubelet knows what runs: one
	// that cannot be reached did not end anything, although the control plane failed its Pod.
	if terminal && !running && !isFailedByPodGC(pod) {
		return fmt.Sprintf("Pod %s has phase %s", pod.Name, pod.Status.Phase)
	}
	return ""
}

// endOfContainer returns why the container that acquired a Lease has ended. A container that
// started before that and runs is the one that acquired it, whatever its last state is.
func endOfContainer(status *corev1.ContainerStatus, h holder) string {
	terminated := status.State.Terminated
	switch running := status.State.Running; {
	case running != nil && h.endedBy(running.StartedAt):
		return fmt.Sprintf("container %s of Pod %s was started again at %s", status.Name, h.pod,
			running.StartedAt.UTC().Format(time.RFC3339))
	case running != nil:
		return ""
	case terminated == nil:
		terminated = status.LastTerminationState.Terminated
	}
	if terminated == nil || !h.endedBy(terminated.FinishedAt) {
		return ""
	}
	return fmt.Sprintf("container %s of Pod %s terminated at %s with exit code %d",
		status.Name, h.pod, terminated.FinishedAt.UTC().Format(time.RFC3339), terminated.ExitCode)
}

// endedBy reports whether a container that ended at t can be the holder's. It must have ended after
// it acquired the Lease. A holder that has renewed the Lease since t, in whole seconds, is alive.
func (h holder) endedBy(t metav1.Time) bool {
	return t.After(h.acquired) && !t.Time.Before(h.renewed.Truncate(time.Second))
}

// statusOf finds the container by its name; "" means the only one.
func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	if container == "" && len(pod.Spec.Containers) == 1 {
		container = pod.Spec.Containers[0].Name
	}
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == container {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

func isFailedByPodGC(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == failedByPodGC {
			return true
		}
	}
	return false
}
