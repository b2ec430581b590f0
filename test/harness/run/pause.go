package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

var leaderPause = spec{
	fault: "leader-pause", family: "leader-pause",
	text:   "the leader is paused (SIGSTOP) when the API server has done TARGET, and goes on when another replica leads",
	derive: fewWrites, newInjector: held(fault.AfterAnswer, pauseUntilFailover),
}

var leaderPauseReconnect = spec{
	fault: "leader-pause-reconnect", family: "leader-pause",
	text:   "the leader is paused (SIGSTOP) when the API server has done TARGET, and watches of the Lease are cut twice a second and have to begin with a list, until another replica leads",
	derive: withLeaseWatch, newInjector: held(fault.AfterAnswer, pauseReconnecting),
}

// withLeaseWatch is oneWrite for an operator that watches the Lease. client-go's own elector reads it,
// and never lists it.
func withLeaseWatch(d *derivation, f scenario.FaultName) []Plan {
	if !slices.ContainsFunc(d.runs, func(o observation) bool { return o.Leases != "" }) {
		return nil
	}
	return oneWrite(d, f)
}

// reconnects is the number of times a second that watches of the Lease are cut and expire.
const reconnects = 2

// pauseReconnecting cuts all watches of the Lease repeatedly while the leader is paused. Each list returns the version
// that all replicas have already, which is no evidence of a running leader.
func pauseReconnecting(ctx context.Context, a *activeFault, r *replica, held *fault.HeldRequest) error {
	return whilePaused(ctx, a, r, held, func(time.Time) (string, error) {
		stop := a.cutLeaseWatches(ctx)
		next, err := a.waitForSuccessor(ctx, r)
		lists := stop()
		if err != nil {
			return "", err
		}
		if lists == 0 {
			a.setVoidReason("no replica listed the Lease again while replica %s was paused", r.process.Name())
			return "", nil
		}
		found := "no other replica led"
		if next != nil {
			found = fmt.Sprintf("replica %s led", next.process.Name())
		}
		return fmt.Sprintf("paused at %s; watches of the Lease began again %d times, and %s", held.Request, lists, found), nil
	})
}

// cutLeaseWatches makes all watches of the Lease begin again with a list, until stop is called.
// stop returns how many did.
func (a *activeFault) cutLeaseWatches(ctx context.Context) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	lists := make(chan int, 1)
	leases := fault.Match{Methods: []string{http.MethodGet}, Path: path.Dir(a.prover.leasePath())}
	a.tasks.Go(func() {
		var all []*fault.Injection
		for ctx.Err() == nil {
			for _, r := range a.prover.running() {
				all = append(all, a.inject(r, leases, fault.NewSkip(0)))
			}
			a.sleep(ctx, time.Second/reconnects)
		}
		n := 0
		for _, i := range all {
			i.Heal()
			n += i.Count()
		}
		lists <- n
	})
	return func() int {
		cancel()
		return <-lists
	}
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
