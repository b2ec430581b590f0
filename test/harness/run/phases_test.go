// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func leaseVersionAt(version uint64, at time.Time, holder string) history.Version {
	return history.Version{
		Key: lease, UID: "lease-uid", RevisionRange: history.At(version), At: at,
		Object: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"holderIdentity": holder}}},
	}
}

// The leader is killed at 5 s and another one leads from 9 s on; it stops at 14 s and releases the
// Lease, which the third acquires at 15 s.
func TestPhases_TakeTheLeaderlessTimeFromTheOthers(t *testing.T) {
	g := NewWithT(t)
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	h := &history.History{
		Versions: []history.Version{
			leaseVersionAt(1, at(-1), "one_a"), leaseVersionAt(2, at(4), "one_a"), leaseVersionAt(3, at(9), "two_b"),
			leaseVersionAt(4, at(14), ""), leaseVersionAt(5, at(15), "three_c"), leaseVersionAt(6, at(18), "two_b"),
		},
		Replicas: []history.Process{{Name: "one", Ended: at(5)}, {Name: "two", Ended: at(14)}, {Name: "three"}},
	}
	c := clocktesting.NewFakeClock(began)
	p := &Prover{clock: c}
	p.subject.Contract.Lease = lease
	run := &execution{prover: p}
	for _, phase := range []struct {
		name  string
		until int
	}{{phaseStart, 2}, {phaseSteps, 6}, {phaseStart, 10}, {phaseIdle, 13}, {phaseSteps, 16}, {phaseJudging, 17},
		{phaseCleanup, 20}, {phaseJudging, 21}} {
		run.enter(phase.name)
		run.enter(phase.name)
		c.SetTime(at(phase.until))
	}
	want := []invariant.Phase{
		{Name: phaseStart, Took: 3 * time.Second},           // 0 to 2, 9 to 10
		{Name: phaseLease, Took: 5 * time.Second},           // 5 to 9, 14 to 15
		{Name: phaseSteps, Took: (3 + 1 + 1) * time.Second}, // 2 to 5, 13 to 14, 15 to 16
		{Name: phaseIdle, Took: 3 * time.Second}, {Name: phaseCleanup, Took: 3 * time.Second},
		{Name: phaseJudging, Took: 2 * time.Second},
	}
	g.Expect(run.phases(h)).To(Equal(want))
}
