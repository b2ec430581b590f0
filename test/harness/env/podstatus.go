package env

import (
	"context"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podStatusTimeout bounds one write of a status, for a control plane that does not answer.
const podStatusTimeout = 5 * time.Second

// podStatus writes the status of a replica's Pod, as a kubelet that restarts the container does.
// Its caller does not call follow from several goroutines at once.
type podStatus struct {
	ctx    context.Context //nolint:containedctx // of the process that is followed, not of a call
	client client.Client
	pod    types.NamespacedName
	uid    types.UID

	container corev1.ContainerStatus
	followed  chan struct{} // closed when the end of the last process was reported
}

func newPodStatus(ctx context.Context, c client.Client, pod types.NamespacedName, uid types.UID, container string) *podStatus {
	followed := make(chan struct{})
	close(followed)
	return &podStatus{
		ctx: ctx, client: c, pod: pod, uid: uid, followed: followed,
		container: corev1.ContainerStatus{Name: container, Image: "process.invalid/none", RestartCount: -1},
	}
}

// follow reports that p has started, and its end when it comes. Reports are in order, and like
// a kubelet's they come after what they report.
func (s *podStatus) follow(p *process) {
	started := metav1.Now()
	before, followed := s.followed, make(chan struct{})
	s.followed = followed
	go func() {
		defer close(followed)
		<-before
		c := &s.container
		c.RestartCount++
		if c.State.Terminated != nil {
			c.LastTerminationState = c.State
		}
		c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
		c.Ready, c.Started = true, new(true)
		s.write()
		<-p.ended
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exitCode(p), Reason: "Error", StartedAt: started, FinishedAt: metav1.Now(),
		}}
		if c.State.Terminated.ExitCode == 0 {
			c.State.Terminated.Reason = "Completed"
		}
		c.Ready, c.Started = false, new(false)
		s.write()
	}()
}

// exitCode is what a container runtime reports: 128 and the signal for a death by a signal.
func exitCode(p *process) int32 {
	if code := p.state.ExitCode(); code >= 0 {
		return int32(code)
	}
	status, _ := p.state.Sys().(syscall.WaitStatus)
	return 128 + int32(status.Signal())
}

// write replaces what the status says of the container. It fails where the Pod or the control
// plane is gone, and then there is no reader.
func (s *podStatus) write() {
	ctx, cancel := context.WithTimeout(s.ctx, podStatusTimeout)
	defer cancel()
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.pod.Namespace, Name: s.pod.Name}}
	pod := before.DeepCopy()
	pod.UID = s.uid // in the patch it is a precondition
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{s.container}
	_ = s.client.Status().Patch(ctx, pod, client.MergeFrom(before))
}
