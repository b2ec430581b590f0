// SPDX-License-Identifier: Apache-2.0

package history

import (
	"time"
)

// Neighbours returns the revisions between which an event outside the store happened. It applies to
// a call that the client waited for: the client's next write is later. The times must be of the API
// server's clock; a zero end is unknown.
func (h *History) Neighbours(began, ended time.Time) RevisionRange {
	var s RevisionRange
	for _, r := range h.Requests {
		version, exact := r.Exact()
		if !exact || (r.Effect != Stored && r.Effect != Deleted) {
			continue
		}
		if !r.Answered.After(began) {
			s.From = max(s.From, version)
		}
		if !ended.IsZero() && r.Received.After(ended) && (s.To == 0 || version < s.To) {
			s.To = version
		}
	}
	return s
}
