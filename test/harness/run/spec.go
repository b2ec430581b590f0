// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"slices"

	"leasehold.dev/test/harness/scenario"
)

// spec is a fault: what plans name, and how they are derived, described and injected.
type spec struct {
	fault scenario.FaultName
	// family is the name of a Family.
	family string
	// variants are the forms of the fault. Nil: it has one.
	variants []string
	// text is a sentence for people. VARIANT, TARGET, COLLECTION and STEP are filled from the plan.
	text string
	// texts has the variants that need a sentence of their own.
	texts map[string]string
	// takesOver is true if another replica has to take the Lease in the fault.
	takesOver bool
	// derive plans the fault from clean runs.
	derive   func(d *derivation, f scenario.FaultName) []Plan
	injector injector
}

// specs are all faults, in the order of their plans.
var specs = []spec{
	crashAfterWrite, lostResponse, failedWrite, lateWrite,
	leaderPause, leaderStop, rollingUpgrade, falseEnd,
	watchDelay, startStale, failedList,
	callCrash, callRefused,
	attackFault,
}

// specOf returns the fault of that name, or nil.
func specOf(f scenario.FaultName) *spec {
	i := slices.IndexFunc(specs, func(s spec) bool { return s.fault == f })
	if i < 0 {
		return nil
	}
	return &specs[i]
}

// forms returns the variants, and "" for a fault without any.
func (s spec) forms() []string {
	if s.variants == nil {
		return []string{""}
	}
	return s.variants
}

// Faults returns the names of all faults, in order.
func Faults() []scenario.FaultName {
	var all []scenario.FaultName
	for _, s := range specs {
		all = append(all, s.fault)
	}
	slices.Sort(all)
	return all
}

// CheckFaults returns an error if the scenario names a fault that there is not.
func CheckFaults(s scenario.Scenario) error {
	for _, f := range s.Faults {
		if specOf(f) == nil {
			return fmt.Errorf("no fault is called %q", f)
		}
	}
	return nil
}

// injector is a fault in any run. It acts through the methods of activeFault, which has the state of
// one run.
type injector interface {
	// begin prepares the fault before the first step. It does not wait: goroutines that it starts
	// through activeFault end when that is healed.
	begin(ctx context.Context, a *activeFault) error
}
