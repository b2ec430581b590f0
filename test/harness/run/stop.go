// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

var leaderStop = spec{
	fault: "stop-leader", family: "stop",
	text:   "the leader receives SIGTERM when the API server has carried out TARGET",
	derive: fewWrites, injector: heldAction{fault.AfterAnswer, stopLeader},
}

// stopLeader sends SIGTERM to the leader, as a kubelet does, releases the held request, and waits for the
// end. The leader starts again afterwards.
func stopLeader(ctx context.Context, a *activeFault, r *replica, held heldRequest) error {
	began := a.now()
	life, err := r.terminate(ctx)
	if err != nil {
		return err
	}
	held.Release()
	if err := r.waitUntilEnded(ctx, life, a.prover.gracePeriod()); err != nil {
		return err
	}
	a.record(history.FaultRecord{Replica: r.process.Name(), Began: began, Ended: a.now(),
		Detail: "asked to stop at " + held.Request.String()})
	return nil
}
