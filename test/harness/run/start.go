package run

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// What meets replicas that start: P9 and P15.

const (
	// raceFor is how long a replica that has started does not get the collection: it
	// could lead by then.
	raceFor = 5 * time.Second
	// staleFor is how long a replica that has started does not get to know what is new:
	// long enough for one of them to lead and to write.
	staleFor = 8 * time.Second
	// startWithin is how long a replica may take to ask for it.
	startWithin = 30 * time.Second
)

// raceStart kills all replicas before the target's step, and refuses those that come
// up the collection.
func raceStart(ctx context.Context, a *armed) error {
	refusal, err := raceFault(a.plan.Variant)
	if err != nil {
		return err
	}
	return a.beforeAction(func() {
		for _, r := range a.prover.replicas {
			ended, injection := a.lasts(), a.inject(r, a.collection(), refusal)
			r.kill()
			killed := a.now()
			a.all.Go(func() {
				defer ended()
				defer injection.Heal()
				asked, met := a.asked(ctx, r, killed, func(fault.Request) bool { return true })
				if !met {
					return
				}
				a.wait(ctx, raceFor)
				a.noted(history.Fault{
					Replica: r.process.Name(), Began: killed, Ended: a.now(),
					Detail: fmt.Sprintf("all replicas were killed, and %s met %s as it started", asked, a.plan.Variant),
				})
			})
		}
	})
}

// raceFault is what happens to requests for the collection until it is healed.
func raceFault(variant string) (fault.Fault, error) {
	if variant == scenario.NoAnswer {
		return fault.NewGate(fault.BeforeForward), nil
	}
	return refusalOf(variant)
}

// asked waits until a process that was started after a time has made a request that
// the plan took hold of, and returns the first that is wanted.
func (a *armed) asked(ctx context.Context, r *replica, since time.Time, wanted func(fault.Request) bool) (found fault.Request, met bool) {
	limited, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	err := wait.PollUntilContextCancel(limited, poll, true, func(context.Context) (bool, error) {
		for _, request := range r.proxy.Journal().Requests {
			// The process that was killed may have asked, too.
			if request.Rule == a.ruleName() && !request.Received.Before(since) && wanted(request) {
				found = request
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		a.missing("replica %s did not ask for %s when it started", r.process.Name(), a.plan.Target.Path)
	}
	return found, err == nil
}

func (a *armed) wait(ctx context.Context, d time.Duration) {
	select {
	case <-a.prover.clock.After(d):
	case <-ctx.Done():
	}
}
