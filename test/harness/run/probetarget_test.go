package run

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestProbeTargetOf(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	target := probeTargetOf(s.processes[0], s.replicas[0].proxy, true)
	g.Expect(target.Name).To(Equal("one"))
	g.Expect([]string{target.Probe, target.Metrics, target.Webhook}).
		To(Equal([]string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}))
	g.Expect(target.Watches()).To(BeZero())
	g.Expect(probeTargetOf(s.processes[0], s.replicas[0].proxy, false).Webhook).To(BeEmpty())
}
