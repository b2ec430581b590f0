// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"time"
)

// timeAxis maps times to a line that is stretched where many events are: a run is idle for seconds,
// and its events are within milliseconds.
type timeAxis struct {
	times []time.Time // in order, each once
	at    []float64   // where they are
}

// crowded is the share of the line that is allocated to events, and not to time.
const crowded = 0.6

// newTimeAxis returns a line from left to right. Each event gets additional space.
func newTimeAxis(from, to time.Time, happens []time.Time, left, right float64) timeAxis {
	times := slices.Concat([]time.Time{from, to}, happens)
	times = slices.DeleteFunc(times, func(t time.Time) bool { return t.Before(from) || t.After(to) })
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)
	s := timeAxis{times: times, at: []float64{left}}
	width, gaps := right-left, float64(len(times)-1)
	for i := 1; i < len(times); i++ {
		share := crowded / gaps
		share += (1 - crowded) * float64(times[i].Sub(times[i-1])) / float64(to.Sub(from))
		s.at = append(s.at, s.at[i-1]+share*width)
	}
	return s
}

// x is where a time is on the line. What lies outside is at its end.
func (s timeAxis) x(t time.Time) float64 {
	i, exact := slices.BinarySearchFunc(s.times, t, time.Time.Compare)
	last := len(s.times) - 1
	switch {
	case exact:
		return rounded(s.at[i])
	case i == 0:
		return rounded(s.at[0])
	case i > last:
		return rounded(s.at[last])
	}
	part := float64(t.Sub(s.times[i-1])) / float64(s.times[i].Sub(s.times[i-1]))
	return rounded(s.at[i-1] + part*(s.at[i]-s.at[i-1]))
}

func rounded(f float64) float64 { return math.Round(f*10) / 10 }
