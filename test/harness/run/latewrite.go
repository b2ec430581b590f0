// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

// lateWrite is planned at each write, because any may do harm.
var lateWrite = spec{
	fault: "late-write", family: "late-write",
	text:      "a leader's TARGET is delayed until the leader has lost its Lease, and reaches the API server when another replica leads",
	takesOver: true, derive: eachWrite, injector: heldAction{fault.BeforeForward, writeLate},
}

// writeLate forwards the held write of the leader when another replica leads, even if its sender has
// ended by then.
func writeLate(ctx context.Context, a *activeFault, r *replica, held heldRequest) error {
	name, life := r.process.Name(), len(r.lifetimes())-1
	cut := a.inject(r.proxy, fault.Match{Path: a.prover.leasePath()}, fault.BlackHole{})
	defer cut.Heal()
	next, err := a.waitForSuccessor(ctx, r, "")
	if next == nil || err != nil {
		return err
	}
	held.Release()
	late, err := held.waitUntilDone(ctx)
	switch {
	case err != nil:
		return err
	case !late.Forwarded.After(next.since):
		a.setVoidReason("%s was forwarded before replica %s led", late, next.process.Name())
	case late.Status == 0:
		a.setVoidReason("%s was not answered: %s", late, late.Error)
	default:
		a.record(history.FaultRecord{
			Replica: name, Began: late.Received, Ended: late.Done, Overtaken: late.Done.Add(noticing),
			Detail: fmt.Sprintf("%s, held for %s, reached the API server when replica %s led, and was answered %d %s", late,
				late.Forwarded.Sub(late.Received).Round(time.Millisecond), next.process.Name(), late.Status,
				http.StatusText(late.Status)),
		})
	}
	cut.Heal()
	return a.waitUntilStepsDown(ctx, r, life)
}
