package scale

import (
	"fmt"
	"time"

	"leasehold.dev/test/harness/figures"
)

func (f *findings) fleetPlots() []figures.Plot {
	if len(f.fleets) == 0 {
		return nil
	}
	sizes := f.bySize()
	smallest, largest := sizes[0][0], float64(sizes[len(sizes)-1][0].n)
	growth := figures.Series{Name: "measured"}
	line := figures.Series{Name: "in proportion to the smallest", Line: true, Points: []figures.Point{
		{}, {X: largest, Y: smallest.took.Seconds() * largest / float64(smallest.n)},
	}}
	progress := figures.Plot{Name: "tenants-ready", Title: "Tenants that are Ready", XLabel: "seconds since the election", YLabel: "share of the fleet"}
	for _, same := range sizes {
		for _, r := range same {
			growth.Points = append(growth.Points, figures.Point{X: float64(r.n), Y: r.took.Seconds()})
		}
		progress.Series = append(progress.Series, figures.Series{Name: fmt.Sprintf("%d Tenants", same[0].n), Line: true, Points: readyCurve(same[0])})
	}
	return []figures.Plot{
		{
			Name: "tenants-time", Title: "Time until all Tenants are Ready", XLabel: "Tenants", YLabel: "seconds",
			Series: []figures.Series{growth, line},
		},
		progress,
	}
}

// readyCurve is the share of a fleet that is Ready over time, in a hundred points.
func readyCurve(r fleet) []figures.Point {
	points := []figures.Point{{}}
	for i, at := range r.ready {
		if share := float64(i+1) / float64(r.n); i == r.n-1 || share*100 >= float64(len(points)) {
			points = append(points, figures.Point{X: at.Seconds(), Y: share})
		}
	}
	return points
}

func (f *findings) memoryPlots() []figures.Plot {
	if len(f.fleets) == 0 {
		return nil
	}
	p := f.memoryPoints()
	return []figures.Plot{{
		Name: "tenants-memory", Title: "Memory over Tenants", XLabel: "Tenants", YLabel: "bytes",
		Series: []figures.Series{{Name: "heap of the leader", Points: p.heap}, {Name: "the objects alone", Points: p.held}},
	}}
}

func (f *findings) herdPlots() []figures.Plot {
	if f.herd == nil {
		return nil
	}
	perSecond := func(name string, moments []time.Duration, end time.Duration) figures.Series {
		s := figures.Series{Name: name, Line: true}
		for second, n := range perBin(moments, time.Second, end) {
			s.Points = append(s.Points, figures.Point{X: float64(second), Y: float64(n)})
		}
		return s
	}
	first := f.herd.first[len(f.herd.first)-1] + time.Second
	return []figures.Plot{{
		Name: "buckets-probes", Title: fmt.Sprintf("Probes of %d StorageBuckets", f.herd.n), XLabel: "seconds since the election", YLabel: "probes a second",
		Series: []figures.Series{
			perSecond("all due at once", f.herd.first, first),
			perSecond("after a restart", f.herd.restarted, f.herd.period),
		},
	}}
}
