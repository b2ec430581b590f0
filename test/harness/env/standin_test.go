// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workloads are one of each kind that makes Pods, of an image that this machine does not have.
func workloads() (*appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet, *batchv1.Job) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
	}
	selector := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	pod := func(app string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
			Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "prepare", Image: "example.com/prepare:1"}},
				Containers:     []corev1.Container{{Name: "main", Image: "example.com/main:1"}},
			}}
	}
	job := pod("job")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &appsv1.Deployment{ObjectMeta: meta("deployment"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)),
			Selector: selector("deployment"), Template: pod("deployment")}},
		&appsv1.StatefulSet{ObjectMeta: meta("set"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), Selector: selector("set"),
			Template: pod("set"), VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceStorage: resource.MustParse("1Gi")}}},
			}}}},
		&appsv1.DaemonSet{ObjectMeta: meta("daemon"), Spec: appsv1.DaemonSetSpec{Selector: selector("daemon"), Template: pod("daemon")}},
		&batchv1.Job{ObjectMeta: meta("job"), Spec: batchv1.JobSpec{Template: job}}
}

// Any image becomes a Pod that is Ready, so what waits for one proceeds as in a cluster.
func TestNodeStandsInForImages(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	cp, err := Start(ctx, Options{Controllers: WorkloadControllers})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cp.Stop()).To(Succeed()) })
	if !cp.HasControllerManager() {
		t.Skip("no kube-controller-manager makes Pods here")
	}
	node, err := cp.StartNode(ctx, NodeOptions{StandIn: true,
		Jobs: map[string]JobEnd{"example.com/broken:1": JobFails, "example.com/server:1": JobRuns}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(node.Stop)
	replica, err := startSmallOperator(ctx, cp, metav1.NamespaceDefault, "operator")
	g.Expect(err).NotTo(HaveOccurred())

	deployment, set, daemon, job := workloads()
	broken, endless := job.DeepCopy(), job.DeepCopy()
	broken.Name, broken.Spec.BackoffLimit = "broken", new(int32(0))
	broken.Spec.Template.Spec.Containers[0].Image = "example.com/broken:1"
	endless.Name, endless.Spec.Template.Spec.Containers[0].Image = "endless", "example.com/server:1"
	for _, o := range []client.Object{deployment, set, daemon, job, broken, endless} {
		g.Expect(cp.client.Create(ctx, o)).To(Succeed())
	}
	read := func(g Gomega, o client.Object) {
		g.Expect(cp.client.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	}
	g.Eventually(func(g Gomega) {
		read(g, deployment)
		read(g, set)
		read(g, daemon)
		read(g, job)
		g.Expect(deployment.Status.AvailableReplicas).To(BeEquivalentTo(2))
		g.Expect(set.Status.AvailableReplicas).To(BeEquivalentTo(2))
		g.Expect(daemon.Status.NumberAvailable).To(BeEquivalentTo(1))
		g.Expect(job.Status.Conditions).To(ContainElement(And(HaveField("Type", batchv1.JobComplete),
			HaveField("Status", corev1.ConditionTrue))))
		read(g, broken)
		g.Expect(broken.Status.Conditions).To(ContainElement(And(HaveField("Type", batchv1.JobFailed),
			HaveField("Status", corev1.ConditionTrue))))
		read(g, endless)
		g.Expect(endless.Status.Ready).To(HaveValue(BeEquivalentTo(1)))
		now := time.Now()
		g.Expect(node.LastChange(now)).To(BeTemporally("<", now), "no Pod is about to change")
	}, eventually).Should(Succeed())
	read(g, endless)
	g.Expect(endless.Status.Active).To(BeEquivalentTo(1), "it runs on")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "data-set-0"}}
	read(g, claim)
	g.Expect(claim.Status.Phase).To(Equal(corev1.ClaimBound))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "set-0"}}
	read(g, pod)
	g.Expect(pod.Status.InitContainerStatuses).To(ConsistOf(HaveField("State.Terminated.Reason", "Completed")))
	g.Expect(pod.Status.ContainerStatuses).To(ConsistOf(HaveField("Ready", true)))

	t.Log("the Pod of a replica is the replica's")
	of := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: replica.Name()}}
	read(g, of)
	g.Expect(of.Status.Conditions).NotTo(ContainElement(HaveField("Type", corev1.PodReady)))

	t.Log("Pods end as a kubelet ends them, and claims go when no Pod uses them")
	g.Expect(cp.client.Delete(ctx, set)).To(Succeed())
	g.Expect(cp.client.Delete(ctx, claim)).To(Succeed())
	for _, o := range []client.Object{pod, claim} {
		get := func(ctx context.Context) error { return cp.client.Get(ctx, client.ObjectKeyFromObject(o), o) }
		g.Eventually(get, eventually).
			WithContext(ctx).Should(MatchError(ContainSubstring("not found")))
	}
}
