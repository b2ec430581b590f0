package run

import (
	"context"
	"fmt"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// raceFor is how long a started replica cannot read the collection. It could lead by then.
const raceFor = 5 * time.Second

// startRace kills all replicas before the target's step, and refuses the collection to those that
// start.
type startRace struct{}

func (startRace) begin(ctx context.Context, a *activeFault) error {
	refusal, err := raceFault(a)
	if err != nil {
		return err
	}
	return a.beforeAction(func() {
		for _, r := range a.prover.replicas {
			ended, injection := a.beginOngoing(), a.inject(r, a.collection(), refusal)
			r.kill()
			killed := a.now()
			a.tasks.Go(func() {
				defer ended()
				defer injection.Heal()
				asked, met := a.waitForRequest(ctx, r, killed, func(fault.Request) bool { return true })
				if !met {
					return
				}
				a.sleep(ctx, raceFor)
				a.record(history.Fault{
					Replica: r.process.Name(), Began: killed, Ended: a.now(),
					Detail: fmt.Sprintf("all replicas were killed, and %s met %s as it started", asked, a.plan.Variant),
				})
			})
		}
		a.releaseLease(ctx)
	})
}

// raceFault returns the fault that requests for the collection meet until it is healed.
func raceFault(a *activeFault) (fault.Fault, error) {
	if a.plan.Variant == scenario.VariantTimeout {
		return fault.NewGate(fault.BeforeForward), nil
	}
	return refuse(a)
}
