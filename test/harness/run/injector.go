package run

import (
	"context"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/scenario"
)

// injector brings one kind of fault about. Package scenario derives its plans.
type injector interface {
	// inject sets the fault up before the first step. activeFault.heal ends what it injects
	// and starts through the methods of activeFault.
	inject(ctx context.Context, a *activeFault) error
}

// requestEvidence is implemented by a fault of single requests. The journals of the
// proxies prove that its fault happened; other faults record it themselves.
type requestEvidence interface {
	// happened reports whether the fault met a request that a rule of the plan matched.
	happened(a *activeFault, r *replica, request fault.Request) bool
}

// injectors has the implementation of each fault that plans name.
var injectors = map[scenario.Fault]injector{
	scenario.CrashAfterWrite:      crash{},
	scenario.LostResponse:         lostAnswer{},
	scenario.FailedWrite:          refusal{},
	scenario.ExternalCrash:        externalFault{},
	scenario.ExternalLostResponse: externalFault{},
	scenario.ExternalError:        externalFault{},
	scenario.ExternalSlow:         externalFault{},
	scenario.WatchDelay:           watchFault{"late", func(d time.Duration) fault.Fault { return fault.Lag{For: d} }},
	scenario.WatchGap:             watchFault{"missed", func(d time.Duration) fault.Fault { return fault.NewSkip(d) }},
	scenario.StaleStart:           staleStart{},
	scenario.FailedList:           startRace{},
	scenario.LateWrite:            lateWrite{},
	scenario.LeaderPause:          pausedLeader{},
	scenario.LeaderPauseReconnect: pausedLeader{},
	scenario.LeaderPartition:      partition{},
	scenario.FullPartition:        partition{},
	scenario.PartitionedStart:     partition{},
	scenario.StopLeader:           termination{},
	scenario.StopStandby:          termination{},
	scenario.StopAtStart:          termination{},
	scenario.SlowStop:             termination{},
	scenario.FalseEvidence:        falseEvidence{},
	scenario.Upgrade:              upgrade{},
	scenario.MetadataStripped:     environmentChange{},
	scenario.ObjectDeleted:        environmentChange{},
	scenario.MetadataContested:    environmentChange{},
	scenario.ForeignFinalizer:     environmentChange{},
	scenario.FlagChange:           installationChange{},
	scenario.RuleChange:           installationChange{},
	scenario.WebhookChange:        installationChange{},
	scenario.CRDChange:            installationChange{},
	scenario.AttackFault:          hostileAttack{},
}
