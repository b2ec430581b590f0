// SPDX-License-Identifier: Apache-2.0

package run

import (
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/history"
)

// pod reads the Pod of replica one.
func (s *testbed) pod() (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: lease.Namespace, Name: "one"}, pod)
}

// podCases are false signs that the leader's process has ended.
var podCases = map[string]faultCase{
	"false-evidence-deleted": {plan: "false-evidence-deleted", replica: "one",
		evidence: "^its Pod was deleted by force, at PATCH /things/thing-1, and replica two led ", cause: func(s *testbed) {
			s.sendTarget()
			s.Eventually(func() bool { _, err := s.pod(); return apierrors.IsNotFound(err) }).Should(BeTrue())
			s.Expect(s.processes[0].kills()).To(BeZero(), "the process runs until another one leads")
			before := time.Now()
			s.lead(1)
			s.Eventually(func() int {
				s.patch(1, thingPath) // the next leader writes at once
				return s.processes[0].kills()
			}).Should(BeNumerically(">", 0))
			s.Expect(s.fault.waitForOngoing(s.t.Context())).Error().NotTo(HaveOccurred())
			s.Expect(s.lifetime("one").Ended).To(BeTemporally(">", before.Add(time.Second)),
				"its end does not excuse the takeover")
		}, also: func(s *testbed, _ history.FaultRecord) {
			s.Expect(s.names()).To(Equal([]string{"two", "three"}), "its token died with the Pod")
			s.Expect(s.lifetime("one").Killed).To(BeTrue())
		}},
	"false-evidence-replaced": {plan: "false-evidence-replaced", replica: "one",
		evidence: "and another of its name failed", cause: func(s *testbed) {
			s.sendTarget()
			s.Eventually(s.pod).Should(And(HaveField("Status.Phase", corev1.PodFailed), HaveField("UID",
				Not(BeEquivalentTo("one-uid")))))
			s.lead(1)
		}, also: func(s *testbed, _ history.FaultRecord) {
			s.Expect(s.names()).To(Equal([]string{"two", "three"}))
			_, err := s.pod()
			s.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it is there for one run")
		}},
}
