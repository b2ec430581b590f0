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

// What meets replicas that start: P15.

const (
	// raceFor is how long a replica that has started does not get the collection: it
	// could lead by then.
	raceFor = 5 * time.Second
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
				a.race(ctx, r, killed)
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

// race waits until the new process has asked for the collection, and a while longer.
func (a *armed) race(ctx context.Context, r *replica, killed time.Time) {
	var met *fault.Request
	limited, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	err := wait.PollUntilContextCancel(limited, poll, true, func(context.Context) (bool, error) {
		for _, asked := range r.proxy.Journal().Requests {
			// The process that was killed may have asked, too.
			if asked.Rule == a.ruleName() && !asked.Received.Before(killed) {
				met = &asked
			}
		}
		return met != nil, nil
	})
	if err != nil {
		a.missing("replica %s did not ask for %s when it started", r.process.Name(), a.plan.Target.Path)
		return
	}
	select {
	case <-a.prover.clock.After(raceFor):
	case <-ctx.Done():
	}
	a.noted(history.Fault{
		Replica: r.process.Name(), Began: killed, Ended: a.now(),
		Detail: fmt.Sprintf("all replicas were killed, and %s met %s as it started", met, a.plan.Variant),
	})
}
