package run

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// getPodOne reads the Pod of worker one.
func (s *testbed) getPodOne(t *testing.T) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{}
	return pod, s.client.Get(t.Context(), client.ObjectKey{Namespace: lease.Namespace, Name: "one"}, pod)
}

func TestFalseEvidence_StatusSaysTerminated(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	began := time.Now().Truncate(time.Second) // a Pod's status has whole seconds
	a := s.injectKind(t, "false-evidence-terminated")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
	var ended *corev1.ContainerStateTerminated
	g.Eventually(func() *corev1.ContainerStateTerminated {
		pod, err := s.getPodOne(t)
		g.Expect(err).NotTo(HaveOccurred())
		for _, c := range pod.Status.ContainerStatuses {
			g.Expect(c.Name).To(Equal("manager"))
			g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
			ended = c.State.Terminated
		}
		return ended
	}, testTimeout).ShouldNot(BeNil())
	g.Expect(ended.FinishedAt.Time).To(And(BeTemporally(">=", began), BeTemporally("<=", time.Now().Add(time.Second))))
	s.setHolder(t)
	f := healAndGetFault(t, a)
	g.Expect(f.FalseEnd).To(BeTrue())
	g.Expect(f.Replica).To(Equal("one"))
	g.Expect(f.Detail).To(ContainSubstring("until replica two led and it ended"))
	_, kills := s.processes[0].counts()
	g.Expect(kills).To(BeZero(), "the process runs")
}

func TestFalseEvidence_PodIsDeleted(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "false-evidence-deleted")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(func() bool {
		_, err := s.getPodOne(t)
		return apierrors.IsNotFound(err)
	}, testTimeout).Should(BeTrue())
	_, kills := s.processes[0].counts()
	g.Expect(kills).To(BeZero(), "the process runs until another one leads")
	before := time.Now()
	s.setHolder(t)
	g.Eventually(func() int {
		s.patch(t, 1, "/things/thing-1") // the next leader writes at once
		_, kills := s.processes[0].counts()
		return kills
	}, testTimeout).Should(BeNumerically(">", 0))
	f := healAndGetFault(t, a)
	g.Expect(s.lifetimeOf("one").Ended).To(BeTemporally(">", before.Add(time.Second)), "its end does not excuse the takeover")
	g.Expect(f.FalseEnd).To(BeFalse(), "a deletion does not excuse an early takeover")
	g.Expect(f.Detail).To(HavePrefix("its Pod was deleted by force, at PATCH /things/thing-1, and replica two led "))
	g.Expect(processNames(s)).To(Equal([]string{"two", "three"}), "its token died with the Pod")
	g.Expect(s.lifetimeOf("one").Killed).To(BeTrue())
	g.Expect(s.lifetimeOf("one").Ended).NotTo(BeZero())
}

func TestFalseEvidence_AnotherPodOfThatNameFails(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.injectKind(t, "false-evidence-replaced")
	g.Eventually(s.patchInBackground(t), testTimeout).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(func() corev1.PodPhase {
		pod, err := s.getPodOne(t)
		if err != nil {
			return ""
		}
		g.Expect(pod.UID).NotTo(BeEquivalentTo("one-uid"))
		return pod.Status.Phase
	}, testTimeout).Should(Equal(corev1.PodFailed))
	s.setHolder(t)
	f := healAndGetFault(t, a)
	g.Expect(f.FalseEnd).To(BeFalse(), "another Pod does not excuse an early takeover")
	g.Expect(f.Detail).To(ContainSubstring("and another of its name failed"))
	g.Expect(processNames(s)).To(Equal([]string{"two", "three"}))
	_, err := s.getPodOne(t)
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it is there for one run")
}
