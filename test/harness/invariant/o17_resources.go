package invariant

import (
	"leasehold.dev/test/harness/history"
)

// Resources looks at what processes use when all is over.
var Resources = Invariant{
	ID: "O17", Name: "resources",
	Promise: "a replica at rest uses no more than in clean runs: goroutines, files and watches come back to where they were",
	judge:   judgeResources,
}

func judgeResources(b *bench) {
	if !b.needs(history.Probes) || !b.needs(history.Processes) || len(b.History.Marks) == 0 {
		return
	}
	if len(b.References) == 0 {
		b.doubt("there is no clean run to compare with")
		return
	}
	limits := []struct {
		figure string
		more   int
	}{
		{history.Goroutines, b.Operator.Limits.Goroutines}, {history.Files, b.Operator.Limits.Files}, {history.Watches, b.Operator.Limits.Watches},
	}
	for _, limit := range limits {
		if limit.more == 0 {
			continue
		}
		most, known := 0.0, false
		for _, h := range b.References {
			for _, used := range usedAtRest(h, limit.figure) {
				most, known = max(most, used), true
			}
		}
		now := usedAtRest(b.History, limit.figure)
		if !known && len(now) > 0 {
			b.doubt("the clean runs do not say how many %s a replica has at rest", limit.figure)
			continue
		}
		for _, life := range b.History.Replicas {
			used, there := now[life]
			if !there {
				continue
			}
			b.checked++
			if used > most+float64(limit.more) {
				b.broken("replica %s has %.0f %s at rest after the run: in clean runs at most %.0f, and %d more may be",
					life.Name, used, limit.figure, most, limit.more)
			}
		}
	}
}

// usedAtRest is the least that each process has had of something in the last mark, if
// it ran all that time. What comes and goes with a question is not in it.
func usedAtRest(h *history.History, figure string) map[history.Replica]float64 {
	least := map[history.Replica]float64{}
	if len(h.Marks) == 0 {
		return least
	}
	rest := h.Marks[len(h.Marks)-1]
	for _, life := range h.Replicas {
		if life.Started.After(rest.Began) || !life.Ended.IsZero() && life.Ended.Before(rest.Ended) {
			continue
		}
		for _, p := range h.Probes {
			used, known := p.Figures[figure]
			if p.Replica != life.Name || p.Question != history.Resources || !known || p.Last.Before(rest.Began) || p.First.After(rest.Ended) {
				continue
			}
			if before, there := least[life]; !there || used < before {
				least[life] = used
			}
		}
	}
	return least
}
