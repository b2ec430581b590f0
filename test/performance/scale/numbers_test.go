package scale

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"leasehold.dev/test/harness/figures"
)

func TestSlope(t *testing.T) {
	for reason, tc := range map[string]struct {
		points []figures.Point
		want   float64
	}{
		"a line":                      {[]figures.Point{{X: 0, Y: 5}, {X: 10, Y: 25}, {X: 20, Y: 45}}, 2},
		"two points":                  {[]figures.Point{{X: 1, Y: 1}, {X: 3, Y: 0}}, -0.5},
		"the closest line":            {[]figures.Point{{X: 0, Y: 0}, {X: 0, Y: 2}, {X: 2, Y: 4}, {X: 2, Y: 6}}, 2},
		"far away from the beginning": {[]figures.Point{{X: 1e9, Y: 1e9}, {X: 1e9 + 1, Y: 1e9 + 3}}, 3},
		"one place":                   {[]figures.Point{{X: 1, Y: 1}, {X: 1, Y: 2}}, math.NaN()},
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

func TestQuantile(t *testing.T) {
	for reason, tc := range map[string]struct {
		q       float64
		samples []float64
		want    float64
	}{
		"the median of three":       {0.5, []float64{3, 1, 2}, 2},
		"the median of four":        {0.5, []float64{4, 3, 1, 2}, 2},
		"the least":                 {0, []float64{3, 1, 2}, 1},
		"the greatest":              {1, []float64{3, 1, 2}, 3},
		"the 99th of few is all":    {0.99, []float64{3, 1, 2}, 3},
		"the 99th of a hundred":     {0.99, hundred(), 99},
		"the 90th of only one":      {0.9, []float64{7}, 7},
		"the samples stay in place": {0.5, []float64{9, 1}, 1},
	} {
		before := slices.Clone(tc.samples)
		got, err := quantile(tc.q, tc.samples)
		if err != nil || got != tc.want {
			t.Errorf("%s: got %v, %v, want %v", reason, got, err, tc.want)
		}
		if !slices.Equal(before, tc.samples) {
			t.Errorf("%s: the samples were changed", reason)
		}
	}
	if _, err := quantile(0.5, nil); !errors.Is(err, errNothing) {
		t.Errorf("no sample has no quantile, got %v", err)
	}
}

func hundred() []float64 {
	var list []float64
	for i := range 100 {
		list = append(list, float64(100-i))
	}
	return list
}

// histogram has these cumulative counts below 1, 2, 4 and infinity.
func histogram(counts ...uint64) *dto.Histogram {
	h := &dto.Histogram{}
	for i, bound := range []float64{1, 2, 4, math.Inf(1)} {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: &counts[i]})
		h.SampleCount = &counts[i]
	}
	return h
}

func TestHistogramQuantile(t *testing.T) {
	for reason, tc := range map[string]struct {
		q    float64
		h    *dto.Histogram
		want float64
	}{
		"in the middle of the only bucket": {0.5, histogram(10, 10, 10, 10), 0.5},
		"at the end of a bucket":           {0.5, histogram(5, 10, 10, 10), 1},
		"within a later bucket":            {0.75, histogram(0, 5, 10, 10), 3},
		"beyond the last bound":            {0.99, histogram(1, 1, 1, 10), 4},
		"an empty bucket is passed over":   {1, histogram(4, 4, 4, 4), 1},
	} {
		got, err := histogramQuantile(tc.q, tc.h)
		if err != nil || math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: got %v, %v, want %v", reason, got, err, tc.want)
		}
	}
	for reason, h := range map[string]*dto.Histogram{"no histogram": nil, "no sample": histogram(0, 0, 0, 0)} {
		if _, err := histogramQuantile(0.5, h); !errors.Is(err, errNothing) {
			t.Errorf("%s has no quantile, got %v", reason, err)
		}
	}
}

func TestSinceLeavesOutWhatWasCountedBefore(t *testing.T) {
	counted := since(histogram(1, 2, 3, 4), histogram(1, 5, 7, 9))
	if got := counted.GetSampleCount(); got != 5 {
		t.Errorf("%d samples, want 5", got)
	}
	for i, want := range []uint64{0, 3, 4, 5} {
		if got := counted.GetBucket()[i].GetCumulativeCount(); got != want {
			t.Errorf("bucket %d has %d samples, want %d", i, got, want)
		}
	}
	if got := since(nil, histogram(1, 1, 1, 1)).GetSampleCount(); got != 1 {
		t.Errorf("of one that was not there before %d samples are counted, want all, 1", got)
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
	h := herd{period: 10 * time.Second, gaps: []time.Duration{
		10*time.Second - 1, 10 * time.Second, 11*time.Second + tardy, 11*time.Second + tardy + 1,
	}}
	if early, late := h.share(h.early), h.share(h.late); early != 0.25 || late != 0.25 {
		t.Errorf("%v are early and %v late, want a quarter each", early, late)
	}
}
