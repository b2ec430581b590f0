// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// CrashAfterWrite kills the replica after the API server has carried out a request and before
// the answer arrives.
const CrashAfterWrite scenario.FaultName = "crash-after-write"

var crashAfterWrite = spec{
	fault: CrashAfterWrite, family: "crash-after-write",
	text:   "a replica is killed (SIGKILL) when the API server has carried out TARGET, before it receives the answer",
	derive: eachWrite, newInjector: held(fault.AfterAnswer, crash),
}

// crash kills the replica whose request the API server has answered. After a refused write there is
// no crash after a commit.
func crash(ctx context.Context, a *activeFault, r *replica, held *fault.HeldRequest) error {
	return a.killAt(ctx, r, r.proxy, held, answerWasLost)
}

// killAt kills a replica whose request a proxy holds, cuts the request, and records the fault if it
// affected the request.
func (a *activeFault) killAt(ctx context.Context, r *replica, proxy *fault.Proxy, held *fault.HeldRequest,
	happened func(fault.ProxiedRequest) bool) error {
	r.kill()
	held.Cut()
	a.healInjections() // the next leader sends the same request and must survive it
	a.releaseLease(ctx)
	request, err := waitUntilDone(context.WithoutCancel(ctx), proxy, held.Request.ID)
	switch {
	case err != nil:
		return err
	case happened(request):
		a.record(history.FaultRecord{Replica: r.process.Name(), Began: request.Received, Ended: request.Done,
			Detail: request.String()})
	default:
		a.setVoidReason("%s", a.withoutEffect(request))
	}
	return nil
}
