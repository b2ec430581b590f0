// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/scenario"
)

// newQuietExecution is an execution whose audit log is empty, and its clock, which stands still.
func newQuietExecution(t *testing.T) (*execution, *clocktesting.FakeClock) {
	t.Helper()
	run, c := newExecution(t, interceptor.Funcs{}), clocktesting.NewFakeClock(time.Now())
	NewWithT(t).Expect(os.WriteFile(run.prover.auditLog, nil, 0o600)).To(Succeed())
	run.prover.clock = c
	return run, c
}

// A checkpoint may need a longer silence, which counts from the last action too.
func TestWaitForIdle_OfItsOwn(t *testing.T) {
	for name, tc := range map[string]struct{ acted, waits time.Duration }{
		"SinceTheLastWrite":  {-time.Hour, 9 * time.Second},
		"SinceTheLastAction": {0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run, c := newQuietExecution(t)
			now, done := c.Now(), make(chan error, 1)
			run.actionTimes = []time.Time{now.Add(tc.acted)}
			q := scenario.Quiesce{Idle: metav1.Duration{Duration: 10 * time.Second}}
			go func() { done <- run.waitForIdle(t.Context(), q, now.Add(-quietPeriod), now.Add(time.Hour)) }()
			g.Consistently(done, 3*pollInterval).ShouldNot(Receive())
			c.Step(tc.waits - time.Millisecond)
			g.Consistently(done, 3*pollInterval).ShouldNot(Receive())
			c.Step(time.Millisecond)
			g.Eventually(done, testTimeout).Should(Receive(BeNil()))
		})
	}
}
