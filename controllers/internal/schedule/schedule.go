// Package schedule says when an object is due for its periodic look, such that
// a fleet of objects does not come due in the same instant.
package schedule

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// spread is the share of the period by which due times are spread.
const spread = 0.1

// Next returns when the object with the given UID, whose last look was at the
// time last, is due again: after its period and up to a tenth of it more, never
// before. The distance is the same for the same object each time, so that it
// does not wander and no state has to be kept.
func Next(last time.Time, period time.Duration, uid types.UID) time.Time {
	return last.Add(period + Share(time.Duration(spread*float64(period)), uid))
}

// Share returns the part of window, from nothing to nearly all of it, that falls
// to the object with the given UID. Objects spread evenly over the window.
func Share(window time.Duration, uid types.UID) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails, by the contract of hash.Hash
	return time.Duration(float64(window) * float64(h.Sum32()) / float64(1<<32))
}
