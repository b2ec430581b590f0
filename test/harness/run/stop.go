package run

import (
	"context"
	"fmt"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

var leaderStop = spec{
	fault: "stop-leader", family: "stop",
	text:   "the leader receives SIGTERM when the API server has done TARGET",
	derive: fewWrites, newInjector: held(fault.AfterAnswer, stopLeader),
}

var slowStop = spec{
	fault: "slow-stop", family: "stop",
	text:   "the leader receives SIGTERM while TARGET is on its way, which takes some seconds",
	derive: fewWrites, newInjector: held(fault.BeforeForward, stopSlowly),
}

var standbyStop = spec{
	fault: "stop-standby", family: "stop",
	text:   "a replica that does not lead receives SIGTERM when the API server has done TARGET",
	derive: oneWrite, newInjector: held(fault.AfterAnswer, stopStandby),
}

var stopInStart = spec{
	fault: "stop-at-start", family: "stop",
	text:   "when the API server has done TARGET, a replica that does not lead dies, starts again, and receives SIGTERM at its first request",
	derive: oneWrite, newInjector: held(fault.AfterAnswer, stopAtStart),
}

// slowness is the delay of a response that a terminating replica waits for. It exceeds the usual
// delay before a process stops its work, such as the time to be removed from a Service.
const slowness = 5 * time.Second

// stopLeader sends SIGTERM to the leader, as a kubelet does. It starts again afterwards.
func stopLeader(ctx context.Context, a *activeFault, r *replica, held *fault.HeldRequest) error {
	return terminate(ctx, a, r, held, "asked to stop at "+held.Request.String())
}

func stopStandby(ctx context.Context, a *activeFault, leader *replica, held *fault.HeldRequest) error {
	r := a.standby(leader)
	if r == nil {
		return nil
	}
	return terminate(ctx, a, r, held, "asked to stop, without leading, at "+held.Request.String())
}

// terminate sends SIGTERM to a replica, releases the held request, and waits for the end.
func terminate(ctx context.Context, a *activeFault, r *replica, held *fault.HeldRequest, detail string) error {
	began := a.now()
	life, err := r.terminate(ctx)
	if err != nil {
		return err
	}
	held.Release()
	if err := r.waitUntilEnded(ctx, life, a.prover.gracePeriod()); err != nil {
		return err
	}
	a.record(history.FaultRecord{Replica: r.process.Name(), Began: began, Ended: a.now(), Detail: detail})
	return nil
}

// stopAtStart sends SIGTERM to a standby that has just started, at its first request.
func stopAtStart(ctx context.Context, a *activeFault, leader *replica, held *fault.HeldRequest) error {
	r := a.standby(leader)
	if r == nil {
		return nil
	}
	held.Release()
	r.kill()
	gate := fault.NewGate(fault.BeforeForward)
	a.inject(r, fault.Match{To: 1}, gate)
	limited, cancel := context.WithTimeout(ctx, a.prover.timeouts.failover)
	defer cancel()
	first, err := gate.Wait(limited)
	if err != nil {
		a.setVoidReason("replica %s was started and sent no request within %s", r.process.Name(), a.prover.timeouts.failover)
		return nil
	}
	defer first.Release()
	return terminate(ctx, a, r, first, "asked to stop at its first request, "+first.Request.String())
}

// stopSlowly sends SIGTERM to a replica that waits for an answer. The request arrives even if the
// replica does not wait for it any more.
func stopSlowly(ctx context.Context, a *activeFault, r *replica, held *fault.HeldRequest) error {
	began := a.now()
	life, err := r.terminate(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, a.prover.clock, slowness); err != nil {
		return fmt.Errorf("delaying the answer: %w", err)
	}
	took := a.now().Sub(began)
	held.Release()
	slow, err := waitUntilDone(ctx, r.proxy, held.Request.ID)
	if err != nil {
		return err
	}
	if err := r.waitUntilEnded(ctx, life, a.prover.gracePeriod()); err != nil {
		return err
	}
	if slow.Status == 0 {
		a.setVoidReason("%s was not answered: %s", slow, slow.Error)
		return nil
	}
	a.record(history.FaultRecord{
		Replica: r.process.Name(), Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("asked to stop while it waited for %s, which took %s and was answered %d", slow,
			took.Round(time.Millisecond), slow.Status),
	})
	return nil
}
