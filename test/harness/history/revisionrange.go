// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"time"
)

// RevisionRange is the period between two revisions of the store. The zero range is any time.
type RevisionRange struct {
	// From was stored before the period, or is the revision that it stored.
	From uint64 `json:"from,omitempty"`
	// To was stored after the period, or is the revision that it stored. 0 means that no later
	// revision is known.
	To uint64 `json:"to,omitempty"`
}

// At returns the range of a write that was stored with this revision.
func At(version uint64) RevisionRange { return RevisionRange{From: version, To: version} }

// Exact returns the version of a write, if it is known.
func (s RevisionRange) Exact() (version uint64, ok bool) { return s.From, s.From == s.To && s.From > 0 }

// Before reports whether s certainly precedes o. If neither precedes the other, their order is
// unknown.
func (s RevisionRange) Before(o RevisionRange) bool { return s.To != 0 && s.To <= o.From && s != o }

// String returns the revision, or the two that bound the range.
func (s RevisionRange) String() string {
	version, exact := s.Exact()
	switch {
	case exact:
		return fmt.Sprintf("resourceVersion %d", version)
	case s.To == 0:
		return fmt.Sprintf("after resourceVersion %d", s.From)
	}
	return fmt.Sprintf("between resourceVersions %d and %d", s.From, s.To)
}

// When is String with a preposition.
func (s RevisionRange) When() string {
	if _, exact := s.Exact(); exact {
		return "at " + s.String()
	}
	return s.String()
}

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
