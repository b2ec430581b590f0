// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/scenario"
)

// newStoppedExecution is an execution with its clock, which stands still.
func newStoppedExecution(t *testing.T) (*execution, *clocktesting.FakeClock) {
	t.Helper()
	run, c := newExecution(t, interceptor.Funcs{}), clocktesting.NewFakeClock(time.Now())
	run.prover.clock = c
	return run, c
}

// idle waits in the background until the operator is idle, which wrote last when it had to be silent from.
func (ex *execution) idle(t *testing.T, q scenario.Quiesce, limit time.Duration) <-chan error {
	t.Helper()
	now := ex.prover.clock.Now()
	return inBackground(func() error { return ex.waitForIdle(t.Context(), q, now.Add(-quietPeriod), now.Add(limit)) })
}

// A checkpoint may need a longer silence, which counts from the last action too.
func TestWaitForIdle_OfItsOwn(t *testing.T) {
	for name, tc := range map[string]struct{ acted, waits time.Duration }{
		"SinceTheLastWrite":  {-time.Hour, 9 * time.Second},
		"SinceTheLastAction": {0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run, c := newStoppedExecution(t)
			run.actionTimes = []time.Time{c.Now().Add(tc.acted)}
			done := run.idle(t, scenario.Quiesce{Idle: metav1.Duration{Duration: 10 * time.Second}}, time.Hour)
			g.Consistently(done, 3*pollInterval).ShouldNot(Receive())
			c.Step(tc.waits - time.Millisecond)
			g.Consistently(done, 3*pollInterval).ShouldNot(Receive())
			c.Step(time.Millisecond)
			g.Eventually(done, testTimeout).Should(Receive(BeNil()))
		})
	}
}
