package invariant

import (
	"time"

	"leasehold.dev/test/harness/history"
)

// TruthfulLiveness compares the health that a process reports with the work that it finishes.
var TruthfulLiveness = Invariant{
	Name: "truthful-liveness",
	Bug:  "https://github.com/CrunchyData/postgres-operator/issues/3593",
	Promise: "a leader whose work does not progress reports that it is unhealthy; one that progresses or is idle " +
		"reports that it is healthy",
	judge: judgeLiveness,
}

func judgeLiveness(b *judgement) {
	if !b.hasSource(history.Probes) || !b.hasSource(history.Processes) {
		return
	}
	for _, life := range b.History.Replicas {
		b.judgeAlarms(life)
		b.judgeSilence(life)
	}
}

// judgeAlarms looks for a process that was not healthy for no reason.
func (b *judgement) judgeAlarms(life history.Process) {
	began := false
	for _, p := range b.probesOf(life, history.Alive) {
		switch {
		case p.Result == history.Yes:
			began = true
			b.checked++
		case p.Result != history.No, !began:
			// A paused replica does not answer, and a starting one may not.
		case !life.Asked.IsZero() && !p.First.Before(life.Asked):
		case !b.busyDuring(life, p):
			b.checked++
			b.addViolation("replica %s reported at %s that it is not healthy (%s), with no waiting work",
				life.Name, p.First.Format("15:04:05.000"), p.Detail)
		}
	}
}

// busyDuring reports whether the process had work at the time of a probe.
func (b *judgement) busyDuring(life history.Process, health history.Probe) bool {
	for _, p := range b.probesOf(life, history.Work) {
		if p.Result == history.Busy && !p.First.After(health.Last) && !p.Last.Before(health.First) {
			return true
		}
	}
	return false
}

// judgeSilence looks for a process that led, had work, finished none, and was healthy.
func (b *judgement) judgeSilence(life history.Process) {
	limit := b.Contract.Limits.Stuck.Duration
	if limit == 0 {
		return
	}
	for _, p := range b.probesOf(life, history.Work) {
		from := b.ledSince(life.Name, p)
		if p.Result != history.Busy || from.IsZero() || p.Last.Sub(from) <= limit {
			continue
		}
		b.checked++
		for _, health := range b.probesOf(life, history.Alive) {
			if late := from.Add(limit); health.Result == history.Yes && health.Last.After(late) && health.First.Before(p.Last) {
				b.addViolation("replica %s led and had work, finished none from %s to %s, and still reported at %s that it is healthy: the limit is %s",
					life.Name, from.Format("15:04:05.000"), p.Last.Format("15:04:05.000"), health.Last.Format("15:04:05.000"), limit)
				break
			}
		}
	}
}

// ledSince returns since when a replica led at the end of a probe; zero if it did not lead then.
func (b *judgement) ledSince(name string, p history.Probe) time.Time {
	var since time.Time
	for _, t := range b.History.Terms(b.Contract.Lease) {
		if t.At.After(p.Last) {
			break
		}
		switch {
		case t.Holder != name:
			since = time.Time{}
		case t.At.After(p.First):
			since = t.At
		default:
			since = p.First
		}
	}
	return since
}

// probesOf are the answers of one process to a question.
func (b *judgement) probesOf(life history.Process, question history.ProbeRequest) []history.Probe {
	var all []history.Probe
	for _, p := range b.History.Probes {
		if p.Replica == life.Name && p.Request == question && life.During(p.Last) {
			if p.First.Before(life.Started) {
				p.First = life.Started // an earlier process gave the same answer
			}
			all = append(all, p)
		}
	}
	return all
}
