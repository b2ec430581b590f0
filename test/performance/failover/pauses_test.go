package failover

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/performance/environment"
)

func TestMeasurePauses(t *testing.T) {
	t.Parallel()
	g, ctx := NewWithT(t), t.Context()
	checkout, err := environment.Build(ctx, root, t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	section, err := MeasurePauses(ctx, environment.Parameters{Checkout: checkout, Seed: 1, Quick: true, Clock: clock.RealClock{}, Say: t.Logf})
	g.Expect(err).NotTo(HaveOccurred())
	for _, f := range section.Figures {
		t.Logf("%-28s %v %s %s", f.ID, f.Runs, f.Unit, f.Verdict())
		g.Expect(f.Runs).NotTo(BeEmpty(), f.ID)
		if f.ID == "F8.calls" {
			g.Expect(f.Verdict()).To(Equal(figures.Met))
		}
	}
}

// Requests from a process that could not be found count against the leader that was paused.
func TestCallsAfter(t *testing.T) {
	t.Parallel()
	j := fault.Journal{
		Connections: []fault.Connection{{ID: 1, Peer: "old"}, {ID: 2, Peer: "next"}, {ID: 3}},
		Requests: []fault.Request{
			{Connection: 1, Received: at(10)}, {Connection: 1, Received: at(20)}, {Connection: 1, Received: at(21)},
			{Connection: 2, Received: at(22)}, {Connection: 3, Received: at(19)}, {Connection: 3, Received: at(23)},
		},
	}
	for name, tc := range map[string]struct {
		end  time.Time
		want int
	}{"AllBefore": {at(23), 0}, "AtTheEnd": {at(20), 2}, "AllAfter": {at(0), 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(callsAfter(j, tc.end, "next")).To(Equal(tc.want))
		})
	}
}
