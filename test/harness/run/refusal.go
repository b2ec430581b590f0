// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strconv"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/scenario"
)

// refusals are the codes of FailedWrite.
var refusals = []string{"409", "429", "500", "503", "504"}

var failedWrite = spec{
	fault: "failed-write", family: "failed-write",
	variants: refusals,
	text:     "a replica receives VARIANT for TARGET, which never reaches the API server",
	derive:   eachWriteRefused, injector: requestFault{refuse, wasNotForwarded},
}

// eachWriteRefused plans the refusal of each write. The seed selects the code.
func eachWriteRefused(d *derivation, f scenario.FaultName) []Plan {
	var plans []Plan
	for _, t := range d.writes() {
		plans = append(plans, d.plan(f, draw(d.seed, d.plan(f, "", t), refusals), t))
	}
	return plans
}

// refuse answers the request with the plan's code instead of forwarding it, as the API server or the
// external system does.
func refuse(a *activeFault) (fault.Fault, error) {
	code, err := strconv.Atoi(a.plan.Variant)
	if err != nil {
		return nil, fmt.Errorf("reading the code %q: %w", a.plan.Variant, err)
	}
	if a.isExternal {
		return a.prover.external.Refusal(code)
	}
	return fault.Refusal(code)
}

func wasNotForwarded(request fault.ProxiedRequest) bool {
	return request.Forwarded.IsZero()
}
