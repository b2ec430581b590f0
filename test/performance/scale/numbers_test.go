package scale

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

func TestSlope(t *testing.T) {
	for reason, tc := range map[string]struct {
		points []point
		want   float64
	}{
		"a line":                      {[]point{{0, 5}, {10, 25}, {20, 45}}, 2},
		"two points":                  {[]point{{1, 1}, {3, 0}}, -0.5},
		"the closest line":            {[]point{{0, 0}, {0, 2}, {2, 4}, {2, 6}}, 2},
		"far away from the beginning": {[]point{{1e9, 1e9}, {1e9 + 1, 1e9 + 3}}, 3},
		"one place":                   {[]point{{1, 1}, {1, 2}}, math.NaN()},
		"no point":                    {nil, math.NaN()},
	} {
		got := slope(tc.points)
		// A figure that is not a number misses any goal, and one that is infinite would, too.
		if math.IsNaN(tc.want) && (math.IsNaN(got) || math.IsInf(got, 0)) {
			continue
		}
		if math.Abs(got-tc.want) > 1e-6 || math.IsNaN(got) {
			t.Errorf("%s: got %v, want %v", reason, got, tc.want)
		}
	}
}

func TestPerBin(t *testing.T) {
	ms := time.Millisecond
	for reason, tc := range map[string]struct {
		moments  []time.Duration
		bin, end time.Duration
		want     []int
	}{
		"each in its own":                 {[]time.Duration{0, 999 * ms, time.Second, 2500 * ms}, time.Second, 3 * time.Second, []int{2, 1, 1}},
		"before the beginning":            {[]time.Duration{-ms, 0}, time.Second, time.Second, []int{1}},
		"after the end":                   {[]time.Duration{0, time.Second}, time.Second, time.Second, []int{1}},
		"a last one that is not whole":    {[]time.Duration{0, 2100 * ms}, time.Second, 2500 * ms, []int{1, 0}},
		"nothing in nothing":              {nil, time.Second, 0, []int{}},
		"nothing in something is counted": {nil, time.Second, 2 * time.Second, []int{0, 0}},
	} {
		if got := perBin(tc.moments, tc.bin, tc.end); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", reason, got, tc.want)
		}
	}
}

func TestPeakToMean(t *testing.T) {
	for reason, tc := range map[string]struct {
		bins []int
		want float64
	}{
		"even":        {[]int{5, 5, 5}, 1},
		"all at once": {[]int{0, 12, 0, 0}, 4},
		"one is more": {[]int{1, 2, 1, 0}, 2},
	} {
		if got, err := peakToMean(tc.bins); err != nil || got != tc.want {
			t.Errorf("%s: got %v, %v, want %v", reason, got, err, tc.want)
		}
	}
	for reason, bins := range map[string][]int{"no bins": nil, "nothing in them": {0, 0}} {
		if _, err := peakToMean(bins); !errors.Is(err, errNothing) {
			t.Errorf("%s has no peak, got %v", reason, err)
		}
	}
}

func TestGapsAreFromTheFirstToTheSecondOfEach(t *testing.T) {
	begin := time.Unix(0, 0)
	at := func(bucket string, second int) arrival {
		return arrival{bucket, begin.Add(time.Duration(second) * time.Second)}
	}
	got := gaps([]arrival{at("a", 0), at("b", 1), at("c", 2), at("b", 5), at("a", 7), at("b", 9)})
	if want := []time.Duration{4 * time.Second, 7 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRatioIsOfTheMeanTimeOfAWrite(t *testing.T) {
	r := fleet{
		n: 10, took: 30 * time.Second,
		before: pace{writes: 100, took: 10 * time.Second}, after: pace{writes: 10, took: 3 * time.Second},
	}
	// 10 Tenants of 10 writes, at 100 ms before and 300 ms after.
	if got := r.ratio(10); math.Abs(got-1.5) > 1e-9 {
		t.Errorf("got %v, want 30 s / (100 writes * 200 ms) = 1.5", got)
	}
}

func TestEarlyAndLateAreOutsideOfWhatIsPromised(t *testing.T) {
	h := bucketFleet{period: 10 * time.Second, gaps: []time.Duration{
		10*time.Second - 1, 10 * time.Second, 11*time.Second + tardy, 11*time.Second + tardy + 1,
	}}
	if early, late := h.share(h.early), h.share(h.late); early != 0.25 || late != 0.25 {
		t.Errorf("%v are early and %v late, want a quarter each", early, late)
	}
}
