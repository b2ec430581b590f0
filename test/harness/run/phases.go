// SPDX-License-Identifier: Apache-2.0

package run

import (
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// The phases of a run.
const (
	// phaseStart is the wait for replicas that are ready, at the start and before checkpoints.
	phaseStart = "start"
	// phaseLease is the time without a leader: from the end of the process that held the Lease, or
	// from its release, until another one holds it. It belongs to no other phase.
	phaseLease = "Lease"
	// phaseSteps is the time of the users' steps, and of waits for the states that they lead to.
	phaseSteps = "steps"
	// phaseIdle is the wait until the operator is idle, and the checkpoints.
	phaseIdle    = "idle"
	phaseCleanup = "cleanup"
	// phaseJudging includes reading the records.
	phaseJudging = "judging"
)

// phaseNames are the phases in the order of reports.
var phaseNames = []string{phaseStart, phaseLease, phaseSteps, phaseIdle, phaseCleanup, phaseJudging}

// span is a time that a run spent in a phase.
type span struct {
	phase    string
	from, to time.Time
}

// enter ends the current phase of the run and begins another one.
func (ex *execution) enter(phase string) {
	now := ex.prover.clock.Now()
	if last := len(ex.spans) - 1; last >= 0 {
		if ex.spans[last].phase == phase {
			return
		}
		ex.spans[last].to = now
	}
	ex.spans = append(ex.spans, span{phase: phase, from: now})
}

func (ex *execution) phases(h *history.History) []invariant.Phase {
	ex.enter("")
	gaps := leaderlessSpans(h, ex.prover.subject.Contract.Lease)
	took := map[string]time.Duration{}
	for _, s := range ex.spans[:len(ex.spans)-1] {
		took[s.phase] += s.to.Sub(s.from)
		for _, gap := range gaps {
			if without := s.overlap(gap); without > 0 {
				took[s.phase] -= without
				took[phaseLease] += without
			}
		}
	}
	var all []invariant.Phase
	for _, name := range phaseNames {
		all = append(all, invariant.Phase{Name: name, Took: took[name]})
	}
	return all
}

// overlap returns for how long both spans last.
func (s span) overlap(o span) time.Duration {
	from, to := s.from, s.to
	if o.from.After(from) {
		from = o.from
	}
	if o.to.Before(to) {
		to = o.to
	}
	return to.Sub(from)
}

// leaderlessSpans returns the times in which no running process held the Lease.
func leaderlessSpans(h *history.History, lease history.Key) []span {
	terms := h.Terms(lease)
	var all []span
	for i := 0; i+1 < len(terms); i++ {
		next := i + 1
		from := terms[i].At
		if terms[i].Holder != "" {
			ended, known := endBetween(h, terms[i].Holder, terms[i].At, terms[next].At)
			if !known {
				continue
			}
			from = ended
		}
		all = append(all, span{phaseLease, from, terms[next].At})
	}
	return all
}

// endBetween returns when the replica's process ended in a time.
func endBetween(h *history.History, replica string, from, to time.Time) (at time.Time, known bool) {
	for _, r := range h.Replicas {
		if r.Name == replica && r.Ended.After(from) && r.Ended.Before(to) {
			return r.Ended, true
		}
	}
	return at, false
}
