package history

import (
	"time"
)

// Around places something that happened outside the store between what the store
// is known to have stored before it began and what it stored after it had ended.
// It is for what a client waited for: a write that the client made then is after
// it. The times must be of the clock of the API server's machine; the zero time
// for the end is that it has none.
func (h *History) Around(began, ended time.Time) Span {
	var s Span
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
