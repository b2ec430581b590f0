// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// variantTimeout is the failed-list in which a replica's first request for a collection is
// not answered until later. The other variants are codes: the rights are not there
// yet, or the kind is not.
const variantTimeout = "timeout"

// races are the variants of failed-list.
var races = []string{"403", "404", variantTimeout}

var failedList = spec{
	fault: "failed-list", family: "failed-list",
	variants: races,
	text:     "before STEP all replicas are killed (SIGKILL); for 5 s, the replicas that start next receive VARIANT when they request COLLECTION",
	texts: map[string]string{
		variantTimeout: "before STEP all replicas are killed (SIGKILL); for 5 s, the replicas that start next get no response when they request COLLECTION",
	},
	derive: eachCollection, injector: startRace{},
}

// eachCollection plans the fault for each collection, in one variant.
func eachCollection(d *derivation, f scenario.FaultName) []Plan {
	return d.oneStart(func(t Target) []Plan {
		var plans []Plan
		for _, variant := range races {
			plans = append(plans, d.plan(f, variant, t))
		}
		return plans
	})
}

// raceFor is the time for which a started replica cannot read the collection: long enough to lead.
const raceFor = 5 * time.Second

// startRace kills all replicas before the target's step, and refuses the collection to those that
// start.
type startRace struct{}

func (startRace) begin(ctx context.Context, a *activeFault) (err error) {
	refusal := fault.Fault(fault.NewGate(fault.BeforeForward)) // until it is healed
	if a.plan.Variant != variantTimeout {
		if refusal, err = refuse(a); err != nil {
			return err
		}
	}
	return a.beforeAction(func() {
		for _, r := range a.prover.replicas {
			injection := a.inject(r.proxy, a.collection(), refusal)
			r.kill()
			killed := a.now()
			a.goOngoing(func() {
				defer injection.Heal()
				asked, met := a.waitForRequest(ctx, r, killed)
				if !met {
					return
				}
				a.sleep(ctx, raceFor)
				a.record(history.FaultRecord{
					Replica: r.process.Name(), Began: killed, Ended: a.now(),
					Detail: fmt.Sprintf("all replicas were killed, and %s met %s as it started", asked, a.plan.Variant),
				})
			})
		}
		a.releaseLease(ctx)
	})
}
