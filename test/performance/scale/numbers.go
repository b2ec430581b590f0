package scale

import (
	"errors"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"leasehold.dev/test/harness/figures"
)

// errNothing says that a figure has nothing to be taken from.
var errNothing = errors.New("nothing was measured")

// slope is how steep the line is that lies closest to the points by least squares.
// It is not a number for fewer than two places on the axis.
func slope(points []figures.Point) float64 {
	var x, y, xx, xy float64
	for _, p := range points {
		x, y = x+p.X, y+p.Y
	}
	n := float64(len(points))
	for _, p := range points {
		xx += (p.X - x/n) * (p.X - x/n)
		xy += (p.X - x/n) * (p.Y - y/n)
	}
	return xy / xx
}

// quantile is the smallest sample that at least the share q of all do not exceed.
func quantile(q float64, samples []float64) (float64, error) {
	if len(samples) == 0 {
		return 0, errNothing
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)], nil
}

// since is what a histogram has counted after an earlier reading of it.
func since(before, after *dto.Histogram) *dto.Histogram {
	counted := &dto.Histogram{}
	total := after.GetSampleCount() - before.GetSampleCount()
	counted.SampleCount = &total
	earlier := map[float64]uint64{}
	for _, b := range before.GetBucket() {
		earlier[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	for _, b := range after.GetBucket() {
		bound, count := b.GetUpperBound(), b.GetCumulativeCount()-earlier[b.GetUpperBound()]
		counted.Bucket = append(counted.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: &count})
	}
	return counted
}

// histogramQuantile estimates a quantile as Prometheus does: samples are taken to
// lie evenly within their bucket, and what is beyond the last bound on that bound.
func histogramQuantile(q float64, h *dto.Histogram) (float64, error) {
	if h.GetSampleCount() == 0 {
		return 0, errNothing
	}
	rank := q * float64(h.GetSampleCount())
	var bound, below float64
	for _, b := range h.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			break
		}
		count := float64(b.GetCumulativeCount())
		if count >= rank && count > below {
			return bound + (b.GetUpperBound()-bound)*(rank-below)/(count-below), nil
		}
		bound, below = b.GetUpperBound(), count
	}
	return bound, nil
}

// perBin counts how many of the moments lie in each stretch of time from the
// beginning to the end. What lies outside is not counted, and a last stretch that
// is not whole is left out.
func perBin(moments []time.Duration, bin, end time.Duration) []int {
	bins := make([]int, end/bin)
	for _, at := range moments {
		if i := int(at / bin); at >= 0 && i < len(bins) {
			bins[i]++
		}
	}
	return bins
}

// peakToMean is how much fuller the fullest bin is than they are on average.
func peakToMean(bins []int) (float64, error) {
	sum := 0
	for _, n := range bins {
		sum += n
	}
	if sum == 0 {
		return 0, errNothing
	}
	return float64(slices.Max(bins)) * float64(len(bins)) / float64(sum), nil
}
