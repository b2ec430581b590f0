package scale

import (
	"errors"
	"slices"
	"time"
)

// errNothing says that a figure has nothing to be taken from.
var errNothing = errors.New("nothing was measured")

// point is one measurement over what it depends on.
type point struct{ x, y float64 }

// slope is how steep the line is that lies closest to the points by least squares.
// It is not a number for fewer than two places on the axis.
func slope(points []point) float64 {
	var x, y, xx, xy float64
	for _, p := range points {
		x, y = x+p.x, y+p.y
	}
	n := float64(len(points))
	for _, p := range points {
		xx += (p.x - x/n) * (p.x - x/n)
		xy += (p.x - x/n) * (p.y - y/n)
	}
	return xy / xx
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
