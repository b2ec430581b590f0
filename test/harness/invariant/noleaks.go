package invariant

import (
	"leasehold.dev/test/harness/history"
)

// NoLeaks looks at what processes use when all is over.
var NoLeaks = Invariant{
	Name:    "no-leaks",
	Bug:     "https://github.com/kubernetes-sigs/controller-runtime/issues/1280",
	Promise: "at a checkpoint a replica has no more goroutines, files, watches and memory than in clean runs",
	judge:   judgeResources,
}

// grows is the factor of the memory in clean runs that is no finding: the memory after a garbage
// collection depends on its time.
const grows = 1.5

// limit bounds a figure of a process at rest.
type limit struct {
	question history.ProbeRequest
	figure   string
	// A process may have the most of the clean runs, times as much, and more on top.
	times, more float64
}

func judgeResources(b *judgement) {
	if !b.hasSource(history.Probes) || !b.hasSource(history.Processes) || len(b.History.Checkpoints) == 0 {
		return
	}
	if len(b.References) == 0 {
		b.addDoubt("there is no clean run to compare with")
		return
	}
	limits := b.Contract.Limits
	for _, l := range []limit{
		{history.Resources, history.Goroutines, 1, float64(limits.Goroutines)},
		{history.Resources, history.Files, 1, float64(limits.Files)},
		{history.Resources, history.Watches, 1, float64(limits.Watches)},
		{history.Memory, history.Heap, grows, limits.Heap.AsApproximateFloat64()},
		{history.Memory, history.Resident, grows, limits.Resident.AsApproximateFloat64()},
	} {
		if l.more > 0 {
			b.judgeResource(l)
		}
	}
}

func (b *judgement) judgeResource(l limit) {
	most, known := 0.0, false
	for _, h := range b.References {
		for _, used := range usedAtRest(h, l) {
			most, known = max(most, used), true
		}
	}
	now := usedAtRest(b.History, l)
	if !known && len(now) > 0 {
		b.addDoubt("the clean runs did not record how many %s an idle replica has", l.figure)
		return
	}
	allowed := most*l.times + l.more
	for _, life := range b.History.Replicas {
		used, there := now[life]
		if !there {
			continue
		}
		b.checked++
		if used > allowed {
			b.addViolation("replica %s has %.0f %s when idle after the run: in clean runs at most %.0f, and %.0f more are allowed",
				life.Name, used, l.figure, most, allowed-most)
		}
	}
}

// usedAtRest returns the minimum of a figure of each process in the last checkpoint, if it ran
// throughout. The minimum excludes the cost of the measurement.
func usedAtRest(h *history.History, l limit) map[history.Process]float64 {
	least := map[history.Process]float64{}
	if len(h.Checkpoints) == 0 {
		return least
	}
	rest := h.Checkpoints[len(h.Checkpoints)-1]
	for _, life := range h.Replicas {
		if life.Started.After(rest.Began) || !life.Ended.IsZero() && life.Ended.Before(rest.Ended) {
			continue
		}
		for _, p := range h.Probes {
			used, known := p.Figures[l.figure]
			if p.Replica != life.Name || p.Request != l.question || !known || p.Last.Before(rest.Began) ||
				p.First.After(rest.Ended) {
				continue
			}
			if before, there := least[life]; !there || used < before {
				least[life] = used
			}
		}
	}
	return least
}
