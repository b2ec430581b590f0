// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// spread is the share of the period by which due times are spread.
const spread = 0.1

// NextDue returns when the object with the UID, last reconciled at the time last, is due again:
// after its period and up to a tenth of it. The offset depends only on the UID, so it needs no
// state, and objects that were created together are not due together.
func NextDue(last time.Time, period time.Duration, uid types.UID) time.Time {
	return last.Add(period + Offset(time.Duration(spread*float64(period)), uid))
}

// Offset returns the delay of the object with the UID, between zero and almost the window. The
// delays of many objects are evenly distributed.
func Offset(window time.Duration, uid types.UID) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails, by the contract of hash.Hash
	return time.Duration(float64(window) * float64(h.Sum32()) / float64(1<<32))
}
