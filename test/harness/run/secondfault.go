package run

import (
	"context"
	"slices"
	"sync"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// recovery is the time from a fault that kills replicas to the next checkpoint.
type recovery struct {
	// second is injected when the recovery begins; nil if the plan has one fault.
	second *activeFault
	inject func() error

	once  sync.Once
	began time.Time // guarded by activeFault.mu, as ended is
	ended time.Time
}

// prepareSecond prepares the second fault of a plan. Its evidence is its own.
func (a *activeFault) prepareSecond(ctx context.Context, plan scenario.Plan) {
	t := plan.Second
	alone := scenario.Plan{Scenario: plan.Scenario, Fault: t.Fault, Variant: t.Variant, Target: t.Target}
	ctx, end := context.WithCancel(ctx)
	second := &activeFault{prover: a.prover, plan: alone, name: plan.ID(), names: a.names, cancel: end, inRecovery: true}
	a.recovery.second = second
	a.recovery.inject = func() error { return injectors[t.Fault].inject(ctx, second) }
}

// beginRecovery injects the second fault, as the first has killed the replicas that it kills, and
// notes that. Requests are counted from here on.
func (a *activeFault) beginRecovery() {
	a.recovery.once.Do(func() {
		if a.recovery.second != nil {
			if err := a.recovery.inject(); err != nil {
				a.addError(err)
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.recovery.began = a.now()
	})
}

// endRecovery notes that a checkpoint begins, and heals what has not happened by then. A nil
// activeFault does nothing.
func (a *activeFault) endRecovery() {
	if a == nil {
		return
	}
	a.mu.Lock()
	ends := !a.recovery.began.IsZero() && a.recovery.ended.IsZero()
	if ends {
		a.recovery.ended = a.now()
	}
	a.mu.Unlock()
	if ends && a.recovery.second != nil {
		a.recovery.second.healInjections()
	}
}

// results returns the faults as they happened.
func (a *activeFault) results() []history.Fault {
	all := []history.Fault{a.result()}
	if a.recovery.second != nil {
		all = append(all, a.recovery.second.result())
	}
	return all
}

// recoveryWrites returns the writes of the recovery, by the replica that wrote first.
func (t *execution) recoveryWrites(h *history.History) []scenario.Write {
	if t.activeFault == nil || t.activeFault.result().Happened == 0 {
		return nil
	}
	t.activeFault.mu.Lock()
	began, ended := t.activeFault.recovery.began, t.activeFault.recovery.ended
	t.activeFault.mu.Unlock()
	if began.IsZero() || ended.IsZero() {
		return nil
	}
	var writes []scenario.Write
	var leader *replica
	for _, w := range t.arrivals(h) {
		if w.at.Before(began) || w.at.After(ended) || !w.replica.ranAt(w.at) || leader != nil && w.replica != leader {
			continue
		}
		leader = w.replica
		writes = append(writes, w.Write)
	}
	return writes
}

// ranAt reports whether the replica had a process at a time. A request that its proxy received at
// another time is one of a process that had ended.
func (r *replica) ranAt(at time.Time) bool {
	return slices.ContainsFunc(r.lifetimes(), func(life history.Replica) bool {
		return !at.Before(life.Started) && (life.Ended.IsZero() || !at.After(life.Ended))
	})
}
