// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"

	"leasehold.dev/test/harness/history"
)

// byArrival are the requests in the order in which the API server received them.
func byArrival(requests []history.Request) []history.Request {
	return slices.SortedStableFunc(slices.Values(requests), func(x, y history.Request) int {
		return x.Received.Compare(y.Received)
	})
}
