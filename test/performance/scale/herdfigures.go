package scale

import (
	"fmt"
	"time"

	"leasehold.dev/test/harness/figures"
)

// tardy is how much later than a tenth after its period a probe may come: one tick
// until it is seen to be due, and one more for those who are before it.
const tardy = 2 * time.Second

func (f *findings) herdFigures() []figures.Figure {
	if f.herd == nil {
		return nil
	}
	h := f.herd
	n := float64(h.n)
	list := []figures.Figure{
		{
			ID: "B1.rate", Title: fmt.Sprintf("probes while %d StorageBuckets are due at once", h.n), Unit: "1/s",
			Runs: []float64{n / h.first[len(h.first)-1].Seconds()},
			Note: "the store answers at once; a first probe also writes a status and an event",
		},
		told("B1.wait.p50", "from the time when all were due to the arrival of the probe, median", "s")(quantile(0.5, seconds(h.first))),
		told("B1.wait.p99", "the same, 99th percentile", "s")(quantile(0.99, seconds(h.first))),
		{ID: "B1.reads", Title: "live reads for each first probe", Runs: []float64{float64(h.spent.reads) / n}, Note: "the Secret, which is never kept"},
		{ID: "B1.writes", Title: "writes for each first probe, with events", Runs: []float64{float64(h.spent.writes) / n}},
		told("B1.period.p50", "from the first probe to the second / period, median", "")(quantile(0.5, h.periods())),
		told("B1.period.p99", "the same, 99th percentile", "")(quantile(0.99, h.periods())),
		{ID: "B1.early", Title: "second probes that came before their period had passed", Runs: []float64{h.share(h.early) * n}, Goal: figures.Exactly(0)},
		{
			ID: "B1.late", Title: fmt.Sprintf("share that came more than %s after 1.1 periods", tardy),
			Runs: []float64{h.share(h.late)}, Goal: figures.AtMost(0.01),
		},
		told("B1.queue.p50", "in the work queue while second probes came, median", "s")(histogramQuantile(0.5, h.queued)),
		told("B1.queue.p99", "the same, 99th percentile", "s")(histogramQuantile(0.99, h.queued)),
	}
	busiest := told("B1.restart.peak", fmt.Sprintf("after a restart, the busiest %s of a period / the mean", stretch), "")(
		peakToMean(perBin(h.restarted, stretch, h.period)))
	busiest.Goal = figures.AtMost(fuller)
	return append(list, busiest,
		told("B1.restart.second", "after a restart, the busiest second / the mean", "")(peakToMean(perBin(h.restarted, time.Second, h.period))))
}

// told is a figure with the one run that there is, or with none where there was nothing
// to take it from.
func told(id, title, unit string) func(value float64, err error) figures.Figure {
	return func(value float64, err error) figures.Figure {
		f := figures.Figure{ID: id, Title: title, Unit: unit}
		if err == nil {
			f.Runs = []float64{value}
		}
		return f
	}
}

func seconds(durations []time.Duration) []float64 {
	var list []float64
	for _, d := range durations {
		list = append(list, d.Seconds())
	}
	return list
}

// periods are the gaps as multiples of the period.
func (h *herd) periods() []float64 {
	var list []float64
	for _, gap := range h.gaps {
		list = append(list, gap.Seconds()/h.period.Seconds())
	}
	return list
}

func (h *herd) early(gap time.Duration) bool { return gap < h.period }

func (h *herd) late(gap time.Duration) bool { return gap > h.period+h.period/10+tardy }

// share is for how many of the gaps something holds, of all.
func (h *herd) share(holds func(time.Duration) bool) float64 {
	count := 0
	for _, gap := range h.gaps {
		if holds(gap) {
			count++
		}
	}
	return float64(count) / float64(max(len(h.gaps), 1))
}
