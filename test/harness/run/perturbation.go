package run

import (
	"context"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/scenario"
)

// perturbation is one kind of fault. Package scenario derives its plans.
type perturbation interface {
	// inject sets the fault up before the first step. activeFault.disarm ends what it injects
	// and starts through the methods of activeFault.
	inject(ctx context.Context, a *activeFault) error
}

// requestEvidence is implemented by a perturbation of single requests. The journals of the
// proxies prove that its fault happened; other perturbations record it themselves.
type requestEvidence interface {
	// happened reports whether the fault met a request that a rule of the plan matched.
	happened(a *activeFault, r *replica, request fault.Request) bool
}

// perturbations has the implementation of each perturbation that plans name.
var perturbations = map[scenario.Perturbation]perturbation{
	scenario.DieAfterCommit:     crash{fault.AfterAnswer},
	scenario.DieBeforeCommit:    crash{fault.BeforeForward},
	scenario.LoseAnswer:         lostAnswer{},
	scenario.Refuse:             refusal{},
	scenario.ExternalFails:      externalFault{},
	scenario.LateEvents:         watchFault{"late", func(d time.Duration) fault.Fault { return fault.Lag{For: d} }},
	scenario.MissedEvents:       watchFault{"missed", func(d time.Duration) fault.Fault { return fault.NewSkip(d) }},
	scenario.LostEvents:         watchFault{"lost", func(d time.Duration) fault.Fault { return fault.Stall{For: d} }},
	scenario.StaleStart:         staleStart{},
	scenario.DeliverLate:        lateWrite{},
	scenario.Pause:              pausedLeader{},
	scenario.CutLease:           leaseCut{},
	scenario.Partition:          partition{},
	scenario.Terminate:          termination{},
	scenario.StartRace:          startRace{},
	scenario.SplitBrain:         splitBrain{},
	scenario.EnvironmentChange:  environmentChange{},
	scenario.InstallationChange: installationChange{},
	scenario.Hostile:            hostileAttack{},
	scenario.FalseEvidence:      falseEvidence{},
}
