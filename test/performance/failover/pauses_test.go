package failover

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/fault"
)

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
