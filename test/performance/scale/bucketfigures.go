package scale

import (
	"fmt"
	"time"

	"leasehold.dev/test/harness/figures"
)

// tardy is how much later than a tenth after its period a probe may come: one tick
// until it is seen to be due, and one more for those who are before it.
const tardy = 2 * time.Second

func (f *findings) bucketFigures() []figures.Figure {
	if f.bucketFleet == nil {
		return nil
	}
	h := f.bucketFleet
	n := float64(h.n)
	list := []figures.Figure{
		{
			ID: "B1.rate", Title: fmt.Sprintf("probes while %d StorageBuckets are due at once", h.n), Unit: "1/s",
			Runs: []float64{n / h.first[len(h.first)-1].Seconds()},
			Note: "the store answers at once; a first probe also writes a status and an event",
		},
		{ID: "B1.reads", Title: "live reads for each first probe", Runs: []float64{float64(h.spent.reads) / n}, Note: "the Secret, which is never kept"},
		{ID: "B1.early", Title: "second probes that came before their period had passed", Runs: []float64{h.share(h.early) * n}, Goal: figures.Exactly(0)},
		{
			ID: "B1.late", Title: fmt.Sprintf("share that came more than %s after 1.1 periods", tardy),
			Runs: []float64{h.share(h.late)}, Goal: figures.AtMost(0.01),
		},
	}
	busiest := figures.Figure{
		ID: "B1.restart.peak", Title: fmt.Sprintf("after a restart, the busiest %s of a period / the mean", stretch), Goal: figures.AtMost(fuller),
	}
	if peak, err := peakToMean(perBin(h.restarted, stretch, h.period)); err == nil {
		busiest.Runs = []float64{peak}
	}
	return append(list, busiest)
}

func (h *bucketFleet) early(gap time.Duration) bool { return gap < h.period }

func (h *bucketFleet) late(gap time.Duration) bool { return gap > h.period+h.period/10+tardy }

// share is for how many of the gaps something holds, of all.
func (h *bucketFleet) share(holds func(time.Duration) bool) float64 {
	count := 0
	for _, gap := range h.gaps {
		if holds(gap) {
			count++
		}
	}
	return float64(count) / float64(max(len(h.gaps), 1))
}
