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

var leaderPause = spec{
	fault: "leader-pause", family: "leader-pause",
	text:   "the leader is paused (SIGSTOP) when the API server has done TARGET, and goes on when another replica leads",
	derive: fewWrites, newInjector: held(fault.AfterAnswer, pauseUntilFailover),
}

// whilePaused calls do while the replica is stopped (SIGSTOP). The API server has carried out the replica's
// request; the answer waits for the replica to run again. If do returns a detail, whilePaused
// records the fault and waits until the replica steps down.
func whilePaused(ctx context.Context, a *activeFault, r *replica, held *fault.HeldRequest,
	do func(began time.Time) (detail string, err error)) error {
	name, life := r.process.Name(), len(r.lifetimes())-1
	paused := func() (time.Time, string, error) {
		if err := r.process.Pause(ctx); err != nil {
			return time.Time{}, "", err
		}
		began := a.now()
		held.Release()
		detail, err := do(began)
		return began, detail, err
	}
	began, detail, err := paused()
	// A process whose stop was not confirmed may stop later, so it is resumed in any case.
	if err := errors.Join(err, r.process.Resume()); err != nil || detail == "" {
		return err
	}
	a.record(history.FaultRecord{Replica: name, Began: began, Ended: a.now(), Detail: detail})
	return a.waitUntilStepsDown(ctx, r, life)
}

func pauseUntilFailover(ctx context.Context, a *activeFault, r *replica, held *fault.HeldRequest) error {
	return whilePaused(ctx, a, r, held, func(began time.Time) (string, error) {
		next, err := a.waitForSuccessor(ctx, r)
		if next == nil || err != nil {
			return "", err
		}
		return fmt.Sprintf("paused at %s, and went on %s later, when replica %s led",
			held.Request, a.now().Sub(began).Round(time.Millisecond), next.process.Name()), nil
	})
}
