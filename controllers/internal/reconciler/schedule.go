package reconciler

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// spread is the share of the period by which due times are spread.
const spread = 0.1

// NextDue returns when the object with the given UID, last reconciled at the time last, is
// due again: after its period and up to a tenth of it more, never before. The offset is a
// function of the UID, so an object keeps it without state, and many objects that were
// created at once do not come due at once.
func NextDue(last time.Time, period time.Duration, uid types.UID) time.Time {
	return last.Add(period + Offset(time.Duration(spread*float64(period)), uid))
}

// Offset returns the part of window, from zero to nearly all of it, that the object with
// the given UID waits. Objects spread evenly over the window.
func Offset(window time.Duration, uid types.UID) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails, by the contract of hash.Hash
	return time.Duration(float64(window) * float64(h.Sum32()) / float64(1<<32))
}
