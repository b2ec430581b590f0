// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workload is an object of a kind that makes Pods, of an image that this machine does not have.
func workload[T any](t *testing.T, name, fields string) *T {
	t.Helper()
	return fromYAML[*T](t, fmt.Sprintf(`
metadata: {namespace: default, name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      initContainers: [{name: prepare, image: example.com/prepare:1}]
      containers: [{name: main, image: example.com/main:1}]
  %[2]s
`, name, fields))
}

// Any image becomes a Pod that is Ready, so what waits for one proceeds as in a cluster.
func TestNodeStandsInForImages(t *testing.T) {
	needsControllers(t)
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	cp, err := Start(ctx, Options{Controllers: WorkloadControllers})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cp.Stop()).To(Succeed()) })
	node, err := cp.StartNode(ctx, NodeOptions{StandIn: true,
		Jobs: map[string]JobEnd{"example.com/broken:1": JobFails, "example.com/server:1": JobRuns}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(node.Stop)
	replica, err := startSmallOperator(ctx, cp, metav1.NamespaceDefault, "operator")
	g.Expect(err).NotTo(HaveOccurred())

	deployment := workload[appsv1.Deployment](t, "deployment", "replicas: 2")
	set := workload[appsv1.StatefulSet](t, "set", "replicas: 2\n  volumeClaimTemplates: "+
		"[{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]")
	daemon := workload[appsv1.DaemonSet](t, "daemon", "")
	job := workload[batchv1.Job](t, "job", "")
	job.Spec.Selector, job.Spec.Template.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
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
