// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// standInNode is the name of the Node object on which Pods without a program run.
	standInNode = "stand-in"
	// standInDelay is the time until such a Pod is Ready, and until one of a Job has ended.
	standInDelay = 500 * time.Millisecond
)

// register creates the Node object. DaemonSets have a Pod for it.
func (n *Node) register(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: standInNode, Labels: map[string]string{
		corev1.LabelHostname: standInNode, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}}}
	if err := client.IgnoreAlreadyExists(n.plane.client.Create(ctx, node)); err != nil {
		return fmt.Errorf("creating the Node: %w", err)
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1000Gi"),
		corev1.ResourcePods: resource.MustParse("1000"), corev1.ResourceEphemeralStorage: resource.MustParse("1000Gi"),
	}
	before := node.DeepCopy()
	// Admission taints each new Node as not ready, and no controller removes that here.
	node.Spec.Taints = nil
	if err := n.plane.client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("removing the taints of the Node: %w", err)
	}
	before = node.DeepCopy()
	node.Status.Capacity, node.Status.Allocatable = room, room
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	if err := n.plane.client.Status().Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("reporting the Node as ready: %w", err)
	}
	return nil
}

// deleteStandIn removes a terminating Pod without a program, as a kubelet does.
func (n *Node) deleteStandIn(ctx context.Context, pod *corev1.Pod) {
	uid := pod.UID
	_ = n.plane.client.Delete(ctx, pod.DeepCopy(), &client.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &uid},
	}) // it may be deleted already, and finalizers may keep it
}

// LastChange returns the time at which a Pod without a program last changed. It returns now if such
// a Pod is about to change.
func (n *Node) LastChange(now time.Time) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changing > 0 {
		return now
	}
	return n.changed
}

// lastPhase is the phase in which a Pod without a program ends; "" if it runs on.
func (n *Node) lastPhase(pod *corev1.Pod) corev1.PodPhase {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return ""
	}
	switch n.options.Jobs[pod.Spec.Containers[0].Image] {
	case JobRuns:
		return ""
	case JobFails:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// standIn makes a Pod Ready after a moment, and ends one of a Job after another.
func (n *Node) standIn(ctx context.Context, pod *corev1.Pod) error {
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.changing--
		n.changed = time.Now()
	}()
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: standInNode}}
	err := n.plane.client.SubResource("binding").Create(ctx, pod, binding)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("binding pod %s: %w", pod.Name, err)
	}
	phases := []corev1.PodPhase{corev1.PodRunning}
	if end := n.lastPhase(pod); end != "" {
		phases = append(phases, end)
	}
	for _, phase := range phases {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(standInDelay):
		}
		before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		now := before.DeepCopy()
		now.UID = pod.UID // in the patch it is a precondition
		now.Status = standInStatus(pod, phase, metav1.Now())
		if err := n.plane.client.Status().Patch(ctx, now, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("writing the status of pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// standInStatus returns the status that a kubelet reports for a Pod in a phase.
func standInStatus(pod *corev1.Pod, phase corev1.PodPhase, now metav1.Time) corev1.PodStatus {
	// No process has the address: a connection to it fails.
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(pod.UID)) // it never fails
	sum := hash.Sum32()
	ip := fmt.Sprintf("10.%d.%d.%d", sum>>16&0xff, sum>>8&0xff, sum&0xff)
	status := corev1.PodStatus{Phase: phase, StartTime: &now, HostIP: "192.0.2.1", PodIP: ip,
		PodIPs: []corev1.PodIP{{IP: ip}}}
	ready := corev1.ConditionTrue
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	ended := func(reason string, code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code,
			StartedAt: now, FinishedAt: now}}
	}
	completed := ended("Completed", 0)
	switch phase {
	case corev1.PodSucceeded:
		ready, state = corev1.ConditionFalse, completed
	case corev1.PodFailed:
		ready, state = corev1.ConditionFalse, ended("Error", 1)
	}
	report := func(c corev1.Container, state corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "stand-in://" + c.Name,
			State: state, Ready: state.Running != nil, Started: new(state.Running != nil)}
	}
	for _, c := range pod.Spec.InitContainers {
		prepared := report(c, completed)
		prepared.Ready = true
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			prepared = report(c, state) // a sidecar
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, prepared)
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, report(c, state))
	}
	status.Conditions = podConditions(ready, now)
	return status
}

// podConditions are those of a Pod that has a node.
func podConditions(ready corev1.ConditionStatus, now metav1.Time) []corev1.PodCondition {
	return []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.ContainersReady, Status: ready, LastTransitionTime: now},
		{Type: corev1.PodReady, Status: ready, LastTransitionTime: now},
	}
}

// seeClaim binds a claim to a volume that exists in its status only.
func (n *Node) seeClaim(ctx context.Context, o any) {
	claim, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok || claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimBound {
		return
	}
	before := claim.DeepCopy()
	claim = claim.DeepCopy()
	claim.Status.Phase, claim.Status.AccessModes = corev1.ClaimBound, claim.Spec.AccessModes
	claim.Status.Capacity = claim.Spec.Resources.Requests
	if err := n.plane.client.Status().Patch(ctx, claim, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil &&
		ctx.Err() == nil && n.options.Failed != nil {
		n.options.Failed(client.ObjectKeyFromObject(claim), fmt.Errorf("binding the claim: %w", err))
	}
}
