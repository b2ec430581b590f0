// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

// noticing is how long a replica that goes on may write before it notices that another one leads. It
// is the time between two renewals by default.
const noticing = 2 * time.Second

var leaderPause = spec{
	fault: "leader-pause", family: "leader-pause",
	text:      "the leader is paused (SIGSTOP) when the API server has carried out TARGET, and resumed when another replica leads",
	takesOver: true, derive: fewWrites, injector: heldAction{fault.AfterAnswer, pauseUntilFailover},
}

// pauseUntilFailover stops the replica (SIGSTOP) until another one leads, and then waits until it steps
// down. The API server has carried out the replica's request; the answer waits for the replica to run again.
func pauseUntilFailover(ctx context.Context, a *activeFault, r *replica, held heldRequest) error {
	life := len(r.lifetimes()) - 1
	err := r.process.Pause(ctx)
	began := a.now()
	var next *leader
	if err == nil {
		held.Release()
		next, err = a.waitForSuccessor(ctx, r, "")
	}
	paused := a.now().Sub(began)
	// A process whose stop was not confirmed may stop later, so it is resumed in any case.
	if err := errors.Join(err, r.process.Resume()); err != nil || next == nil {
		return err
	}
	resumed := a.now()
	a.record(history.FaultRecord{Replica: r.process.Name(), Began: began, Ended: resumed, Overtaken: resumed.Add(noticing),
		Detail: fmt.Sprintf("paused at %s, and went on %s later, when replica %s led",
			held.Request, paused.Round(time.Millisecond), next.process.Name())})
	return a.waitUntilStepsDown(ctx, r, life)
}
