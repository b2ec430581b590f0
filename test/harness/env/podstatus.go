// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/internal/process"
)

const (
	// podStatusTimeout bounds one write of a status, for a control plane that does not answer.
	podStatusTimeout = 5 * time.Second
	// podStatusPoll is the pause before a write is tried again.
	podStatusPoll = 200 * time.Millisecond
)

// podStatus writes the status of a replica's Pod, as a kubelet that restarts the container does.
// Its caller does not call follow from several goroutines at once.
type podStatus struct {
	ctx    context.Context    // of all reports, which no call waits for
	cancel context.CancelFunc // ends all reports, and does not wait for them
	client client.Client
	pod    types.NamespacedName
	uid    types.UID

	container corev1.ContainerStatus
	followed  chan struct{} // closed when the end of the last process was reported
}

func newPodStatus(ctx context.Context, c client.Client, pod types.NamespacedName, uid types.UID,
	container string) *podStatus {
	followed := make(chan struct{})
	close(followed)
	ctx, cancel := context.WithCancel(ctx)
	return &podStatus{
		ctx: ctx, cancel: cancel, client: c, pod: pod, uid: uid, followed: followed,
		container: corev1.ContainerStatus{Name: container, Image: "process.invalid/none", RestartCount: -1},
	}
}

// follow reports the start of p, and its end when it occurs. Reports are in order, and like a
// kubelet's they follow the event.
func (s *podStatus) follow(p *process.Process) {
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
		<-p.Ended
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

// exitCode returns the exit code that a container runtime reports: 128 plus the signal after a signal.
func exitCode(p *process.Process) int32 {
	if code := p.State.ExitCode(); code >= 0 {
		return int32(code)
	}
	status, _ := p.State.Sys().(syscall.WaitStatus)
	return 128 + int32(status.Signal())
}

// write replaces the container's status. Like a kubelet it retries while the API server does not
// answer. It stops if the Pod is deleted or replaced.
func (s *podStatus) write() {
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.pod.Namespace, Name: s.pod.Name}}
	pod := before.DeepCopy()
	pod.UID = s.uid // in the patch it is a precondition
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{s.container}
	_ = wait.PollUntilContextCancel(s.ctx, podStatusPoll, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, podStatusTimeout)
		defer cancel()
		err := s.client.Status().Patch(ctx, pod.DeepCopy(), client.MergeFrom(before))
		return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err), nil
	}) // it fails only where the control plane ends first
}
