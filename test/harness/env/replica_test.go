// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestReplicaActsAsItsPod(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)
	replica, err := startSmallOperator(ctx, shared, ns, "operator")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(replica.Ready, eventually).WithContext(ctx).Should(Succeed(), replica.LogTail(20))

	t.Log("the audit log names the Pod behind the write")
	events := audited(g, ns, "operator-0-"+wroteMarker)
	g.Expect(events).To(HaveLen(1))
	user := events[0].User
	g.Expect(user.Username).To(Equal(replica.Identity().Username))
	g.Expect(user.Extra).To(HaveKeyWithValue("authentication.kubernetes.io/pod-name", HaveExactElements("operator-0")))
	g.Expect(user.Extra).To(HaveKeyWithValue("authentication.kubernetes.io/pod-uid",
		HaveExactElements(string(replica.Identity().PodUID))))

	t.Log("it can be killed and started again under the same identity")
	first := replica.Pid()
	g.Expect(replica.Restart()).To(MatchError(ContainSubstring("running already")))
	replica.Kill()
	g.Expect(replica.Done()).To(BeClosed())
	g.Expect(replica.Ready(ctx)).NotTo(Succeed())
	code, err := replica.Wait(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(code).To(Equal(-1))
	g.Expect(replica.Restart()).To(Succeed())
	g.Expect(replica.Pid()).NotTo(Equal(first))
	g.Eventually(replica.Ready, eventually).WithContext(ctx).Should(Succeed(), replica.LogTail(20))

	t.Log("paused, it is there and does not answer")
	g.Expect(replica.Pause(t.Context())).To(Succeed())
	g.Expect(replica.Ready(ctx)).NotTo(Succeed())
	g.Expect(replica.Running()).To(BeTrue())
	g.Expect(replica.Resume()).To(Succeed())
	g.Eventually(replica.Ready, eventually).WithContext(ctx).Should(Succeed())

	t.Log("stopped, it ends with its own exit code")
	code, err = replica.Stop(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(code).To(Equal(0))
	g.Expect(replica.LogTail(20)).To(ContainSubstring("wrote operator-0"))
}

func TestReplica_ReadyURL(t *testing.T) {
	for want, probe := range map[string]*corev1.HTTPGetAction{
		"http://127.0.0.1:80/ready?all=1": {Path: "/ready?all=1"},
		"https://127.0.0.1:80/ready":      {Path: "ready", Scheme: corev1.URISchemeHTTPS},
		"":                                nil,
	} {
		r := &Replica{ports: ReplicaPorts{Probe: 80}, options: ReplicaOptions{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{ReadinessProbe: &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{HTTPGet: probe}}}}}}}}
		if got := r.ReadyURL(); got != want {
			t.Errorf("readiness is at %q, want %q", got, want)
		}
	}
}

// A replica's Pod shows the state of its process, as if a kubelet ran it.
func TestPodStatusFollowsTheProcess(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)
	replica, err := startSmallOperator(ctx, shared, ns, "reported")
	g.Expect(err).NotTo(HaveOccurred())
	status := func(g Gomega) corev1.ContainerStatus {
		var pod corev1.Pod
		g.Expect(shared.client.Get(ctx, replica.Identity().Pod, &pod)).To(Succeed())
		g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
		g.Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
		g.Expect(pod.Status.ContainerStatuses[0].Name).To(Equal(pod.Spec.Containers[0].Name))
		return pod.Status.ContainerStatuses[0]
	}
	killed := HaveField("ExitCode", BeEquivalentTo(137))
	g.Eventually(status, eventually).Should(HaveField("State.Running", Not(BeNil())))
	replica.Kill()
	g.Eventually(status, eventually).Should(HaveField("State", And(HaveField("Running", BeNil()), HaveField("Terminated", killed))))
	ended := status(g).State.Terminated
	g.Expect(ended.FinishedAt.Time).NotTo(BeTemporally("<", ended.StartedAt.Time))
	g.Expect(replica.Restart()).To(Succeed())
	g.Eventually(status, eventually).Should(And(HaveField("State.Running", Not(BeNil())),
		HaveField("LastTerminationState.Terminated", killed), HaveField("RestartCount", BeEquivalentTo(1))))
	g.Eventually(replica.Ready, eventually).WithContext(ctx).Should(Succeed(), replica.LogTail(20))
	code, err := replica.Stop(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(code).To(BeZero())
	g.Eventually(status, eventually).
		Should(HaveField("State.Terminated", And(HaveField("ExitCode", BeZero()), HaveField("Reason", "Completed"))))
}

// Without a probe a replica is ready while its process runs, as a kubelet has it.
func TestReplica_WithoutProbe(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	replica, err := startSmallOperator(t.Context(), shared, namespace(t), "unprobed", func(o *ReplicaOptions) {
		o.Template.Spec.Containers[0].ReadinessProbe = nil
		o.Args = func(ReplicaPorts) []string { return []string{"0"} }
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(replica.Ready(t.Context())).To(Succeed())
	g.Expect(replica.Ports().Probe).To(BeZero())
	replica.Kill()
	g.Expect(replica.Ready(t.Context())).NotTo(Succeed())
}

func TestReplica_StopKillsAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ns := namespace(t)
	replica, err := startSmallOperator(t.Context(), shared, ns, "stuck")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(replica.Pause(t.Context())).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, err := replica.Stop(ctx)
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(code).To(Equal(-1))
	g.Expect(replica.Done()).To(BeClosed())
}

func TestReplicaKeepsItsTokenToItself(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ns := namespace(t)
	replica, err := startSmallOperator(t.Context(), shared, ns, "private")
	g.Expect(err).NotTo(HaveOccurred())
	info, err := os.Stat(shared.Dir() + "/" + ns + ".private-0.kubeconfig")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))

	var pod corev1.Pod
	identity := replica.Identity()
	g.Expect(shared.client.Get(t.Context(), identity.Pod, &pod)).To(Succeed())
	g.Expect(pod.UID).To(Equal(identity.PodUID))
	g.Expect(pod.Spec.SchedulingGates).NotTo(BeEmpty(), "no scheduler may place it")
}
