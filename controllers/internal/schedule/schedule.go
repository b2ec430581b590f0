// Package schedule says when an object is due for its periodic look, such that
// a fleet of objects does not come due in the same instant.
package schedule

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// spread is the share of the period over which due times are spread: from
// 90 % to 110 % of it.
const spread = 0.2

// Next returns when the object with the given UID, whose last look was at
// the time last, is due again. The distance is period give or take a tenth, the same for the same
// object each time, so that it does not wander and no state has to be kept.
func Next(last time.Time, period time.Duration, uid types.UID) time.Time {
	h := fnv.New32a()
	h.Write([]byte(uid)) // never fails, by the contract of hash.Hash
	fraction := float64(h.Sum32()) / float64(1<<32)
	return last.Add(time.Duration(float64(period) * (1 - spread/2 + spread*fraction)))
}
