// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// TruthfulReadiness checks the state of a process when it first reported that it is ready.
var TruthfulReadiness = Invariant{
	Name:    "truthful-readiness",
	Bug:     "https://github.com/elastic/cloud-on-k8s/pull/9636",
	Promise: "a replica is ready only when its informers have synced and it serves its webhooks",
	needs:   []history.Source{history.Probes, history.Processes},
	judge:   judgeReadiness,
}

// readinessProbe is the object of all violations of this invariant: the cause is the operator's
// readiness check, in any replica and informer.
const readinessProbe = "the readiness probe"

func judgeReadiness(b *judgement) {
	for _, life := range b.History.Replicas {
		ready := firstYes(b.History, life)
		if life.Started.Before(b.History.Began) || ready.IsZero() {
			continue // it began before the run, or never listed
		}
		b.checked++
		b.judgeFollowed(life, ready)
		b.judgeServed(life, ready)
	}
}

// readinessTolerance is how much later than the first probe a collection may be synced: no kubelet
// probes so often, and what differs by less is how the harness measures.
const readinessTolerance = 100 * time.Millisecond

// firstYes is when a process first reported that it is ready; zero if it did not.
func firstYes(h *history.History, life history.Process) time.Time {
	for _, p := range h.Probes {
		switch {
		case p.Replica != life.Name || p.Request != history.Ready || p.Last.Before(life.Started):
		case p.First.Before(life.Started):
			// It seems to continue the answers of the process before.
			if p.Result == history.Yes {
				return time.Time{}
			}
		case !life.During(p.First):
			return time.Time{}
		case p.Result == history.Yes:
			return p.First
		}
	}
	return time.Time{}
}

// judgeFollowed checks which collections the process had requested. Their paths are remarks: the
// cause is the probe, whichever collection is late.
func (b *judgement) judgeFollowed(life history.Process, ready time.Time) {
	var paths []string
	asked, synced, warm := map[string]time.Time{}, map[string]time.Time{}, map[string]bool{}
	for _, f := range b.History.Followed {
		if f.Replica != life.Name || !life.During(f.Asked) {
			continue
		}
		if !slices.Contains(paths, f.Path) {
			paths = append(paths, f.Path)
			asked[f.Path] = f.Asked
			warm[f.Path] = b.Contract.Warm && slices.Contains(b.Contract.Resources(), f.Resource)
		}
		if first, known := synced[f.Path]; !f.Synced.IsZero() && (!known || f.Synced.Before(first)) {
			synced[f.Path] = f.Synced
		}
	}
	const clock = "15:04:05.000"
	leads := b.beganToLead(life)
	for _, path := range paths {
		at, known := synced[path]
		switch {
		case !warm[path] && !leads.IsZero() && asked[path].After(leads):
			// Kinds that only a leader watches are not part of readiness, and the election may
			// precede the first probe.
		case asked[path].After(ready):
			if warm[path] && asked[path].After(ready.Add(readinessTolerance)) {
				b.addViolation("replica %s was ready at %s, and listed a collection later (%s at %s)", life.Name,
					ready.Format(clock), path, asked[path].Format(clock)).object(readinessProbe)
			}
		case !known:
			b.addViolation("replica %s was ready at %s, and never synced a collection (%s)", life.Name, ready.Format(clock),
				path).object(readinessProbe)
		case at.After(ready.Add(readinessTolerance)):
			b.addViolation("replica %s was ready at %s, and synced a collection later (%s at %s)", life.Name,
				ready.Format(clock), path, at.Format(clock)).object(readinessProbe)
		}
	}
	if len(paths) == 0 {
		b.addDoubt("replica %s was ready at %s, and its lists were not recorded", life.Name, ready.Format(clock))
	}
}

// beganToLead is when a process requested the Lease that it then got for the first time; zero
// if it never had it. The process may read the answer before the API server records that it
// has answered.
func (b *judgement) beganToLead(life history.Process) time.Time {
	for _, t := range b.History.Terms(b.Contract.Lease) {
		if t.Holder != life.Name || !life.During(t.At) {
			continue
		}
		for _, r := range b.History.Requests {
			if r.Key == b.Contract.Lease && r.RevisionRange == t.RevisionRange && r.Effect == history.Stored {
				return r.Received
			}
		}
		return t.At
	}
	return time.Time{}
}

// judgeServed looks at the handshake that was tried as soon as it was ready.
func (b *judgement) judgeServed(life history.Process, ready time.Time) {
	for _, p := range b.History.Probes {
		if p.Replica != life.Name || p.Request != history.Serves || p.Last.Before(ready) || !life.During(p.Last) {
			continue
		}
		if p.Result == history.No {
			b.addViolation("replica %s was ready at %s, and did not serve its webhooks (%s)", life.Name,
				ready.Format("15:04:05.000"), p.Detail).object(readinessProbe)
		}
		return
	}
}
