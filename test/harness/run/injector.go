package run

import (
	"context"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/scenario"
)

// injector is one fault in one run, with the state that only this fault has. It acts through the
// methods of activeFault. Package scenario derives its plans.
type injector interface {
	// begin sets the fault up before the first step. It does not wait: what it starts through
	// activeFault ends when that is healed.
	begin(ctx context.Context, a *activeFault) error
}

// requestEvidence is implemented by a fault of single requests. The journals of the proxies prove
// that it happened; other faults record it themselves.
type requestEvidence interface {
	// happened reports whether the fault had its effect on a request that met it.
	happened(request fault.Request) bool
}

// ender is implemented by a fault of which something would be left for the next run.
type ender interface {
	// end removes it when everything that the fault started has ended, even if begin failed.
	end(ctx context.Context, a *activeFault) error
}

// injectors has a constructor for each fault that plans name.
var injectors = map[scenario.Fault]func() injector{
	scenario.CrashAfterWrite:      held(fault.AfterAnswer, crash),
	scenario.LostResponse:         stateless(requestFault{cutAnswer, answerWasLost}),
	scenario.FailedWrite:          stateless(requestFault{refuse, wasNotForwarded}),
	scenario.ExternalCrash:        stateless(externalCrash{}),
	scenario.ExternalLostResponse: stateless(externalFault{requestFault{cutAnswer, callWasLost}}),
	scenario.ExternalError:        stateless(externalFault{requestFault{refuseCall, wasNotForwarded}}),
	scenario.ExternalSlow:         stateless(externalFault{requestFault{delayAnswer, callWasSlow}}),
	scenario.WatchDelay:           stateless(watchFault{"late", delayEvents}),
	scenario.WatchGap:             stateless(watchFault{"missed", skipEvents}),
	scenario.StaleStart:           stateless(staleStart{}),
	scenario.FailedList:           stateless(startRace{}),
	scenario.LateWrite:            held(fault.BeforeForward, writeLate),
	scenario.LeaderPause:          held(fault.AfterAnswer, pauseUntilFailover),
	scenario.LeaderPauseReconnect: held(fault.AfterAnswer, pauseReconnecting),
	scenario.LeaderPartition:      held(fault.AfterAnswer, cutOffLeader),
	scenario.FullPartition:        held(fault.AfterAnswer, cutOffAll),
	scenario.PartitionedStart:     held(fault.AfterAnswer, startCutOff),
	scenario.StopLeader:           held(fault.AfterAnswer, stopLeader),
	scenario.StopStandby:          held(fault.AfterAnswer, stopStandby),
	scenario.StopAtStart:          held(fault.AfterAnswer, stopAtStart),
	scenario.SlowStop:             held(fault.BeforeForward, stopSlowly),
	scenario.FalseEvidence:        func() injector { return &falseEvidence{} },
	scenario.Upgrade:              stateless(upgrade{}),
	scenario.MetadataStripped:     held(fault.AfterAnswer, administratorChange(strip)),
	scenario.ObjectDeleted:        held(fault.AfterAnswer, administratorChange(remove)),
	scenario.MetadataContested:    held(fault.AfterAnswer, administratorChange(rival)),
	scenario.ForeignFinalizer:     stateless(foreignFinalizer{}),
	scenario.FlagChange:           stateless(installationChange{}),
	scenario.RuleChange:           stateless(installationChange{}),
	scenario.WebhookChange:        stateless(installationChange{}),
	scenario.CRDChange:            stateless(installationChange{}),
	scenario.AttackFault:          func() injector { return &hostileAttack{} },
}

// stateless returns the same injector for each run.
func stateless(i injector) func() injector { return func() injector { return i } }
