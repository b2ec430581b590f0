// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

var crashAfterWrite = spec{
	fault: "crash-after-write", family: "crash-after-write",
	text:   "a replica is killed (SIGKILL) after the API server has carried out TARGET and before the replica receives the response",
	derive: eachWrite, injector: heldAction{fault.AfterAnswer, crash},
}

// crash kills the replica whose request has been answered, and cuts the request. After a refused write
// there is no crash after a commit.
func crash(ctx context.Context, a *activeFault, r *replica, held heldRequest) error {
	r.kill()
	held.Cut()
	a.healInjections() // the next leader sends the same request and must survive it
	a.releaseLease(ctx)
	request, err := held.waitUntilDone(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return err
	case answerWasLost(request):
		a.record(history.FaultRecord{Replica: r.process.Name(), Began: request.Received, Ended: request.Done,
			Detail: request.String()})
	default:
		a.setVoidReason("%s", a.withoutEffect(request))
	}
	return nil
}
